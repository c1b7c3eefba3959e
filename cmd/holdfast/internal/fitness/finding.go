// Package fitness checks whether a store is fit for locks. It tries every operation
// on a resource of its own, and takes the measurements that users need.
package fitness

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
)

// Verdict is the result of a Finding.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Note Verdict = "note" // something that the user should know
	Warn Verdict = "warn" // it can be used, but not for everything, or not as it is
	Fail Verdict = "fail" // it cannot be used
)

// Finding is one result of a check.
type Finding struct {
	// Check is a word that scripts may look for.
	Check  string
	Result Verdict
	// Text is what was found and what to do about it.
	Text string
	// Err is the store's error, if there was one.
	Err error
}

// Report is the result of a check.
type Report struct {
	Findings []Finding
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
func (r Report) Failed() *Finding {
	for i, f := range r.Findings {
		if f.Result == Fail {
			return &r.Findings[i]
		}
	}
	return nil
}

// minSensibleTTL is for the holder, whose process may have to wait that long for a
// processor.
const minSensibleTTL = time.Second

// ttlRoundTrips is how many of the slowest answers fit into a sensible TTL. The
// Client renews from a third of the TTL on, and gives up a sixteenth before its end.
// So 18 of them fit in between: a renewal may fail several times, or take several
// times as long as the slowest one that was measured.
const ttlRoundTrips = 30

// sensibleTTL returns the shortest TTL that makes sense for a store whose slowest
// answer took that long, rounded up to a round number.
func sensibleTTL(slowest time.Duration) time.Duration {
	need := max(minSensibleTTL, ttlRoundTrips*slowest)
	unit := time.Second
	for unit < time.Hour && need > 30*unit {
		unit *= 60
	}
	for _, n := range []int{1, 2, 3, 5, 10, 15, 20, 30} {
		if ttl := time.Duration(n) * unit; need <= ttl {
			return ttl
		}
	}
	return need.Truncate(unit) + unit
}
