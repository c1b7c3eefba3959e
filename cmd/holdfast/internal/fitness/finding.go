// Package fitness checks whether a store is fit for locks. It tries every operation
// on a resource of its own, and takes the measurements that users need.
package fitness

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/server/fit"
)

// Report is the result of a check.
type Report struct {
	Findings []fit.Finding
	// Traits are what the store promises; without a name if it was not opened.
	Traits holdfast.Traits
	// Pair is an acquire and a release, Renewal a renewal and HandOver the time from
	// a release to the grant to the waiter. Nil: not measured.
	Pair, Renewal, HandOver *measure.Samples
	// Clock is nil if it could not be read.
	Clock *Offset
	// TTL is the shortest that makes sense here; 0 if it is not known.
	TTL time.Duration
}

// Failed returns the first finding that failed, or nil.
func (r Report) Failed() *fit.Finding {
	for i, f := range r.Findings {
		if f.Result == fit.Fail {
			return &r.Findings[i]
		}
	}
	return nil
}
