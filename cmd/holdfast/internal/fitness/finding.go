// Package fitness finds out whether a store is fit to lock on: it tries on a
// resource of its own all that locking does, and measures what users have to know.
package fitness

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
)

// Verdict is what a Finding comes to.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Note Verdict = "note" // how it is, for the user to know
	Warn Verdict = "warn" // it can be used, but not for everything, or not as it is
	Fail Verdict = "fail" // it cannot be used
)

// Finding is one thing found out.
type Finding struct {
	// Check is a word that scripts may look for.
	Check  string
	Result Verdict
	// Text says what was found and what to do about it.
	Text string
	// Err is why something failed, nil unless a store said so.
	Err error
}

// Report is all that was found out.
type Report struct {
	Findings []Finding
	// Traits are what the store promises; without a name if it was not opened.
	Traits holdfast.Traits
	// Pair is an acquire and a release, Renewal a renewal and HandOver the time
	// from a release to the grant to the one who waits. Nil: not measured.
	Pair, Renewal, HandOver *measure.Samples
	// Clock is nil if it could not be read.
	Clock *Offset
	// TTL is the shortest that makes sense here; 0 if it is not known.
	TTL time.Duration
}

// Failed returns the first finding because of which the store cannot be used, or
// nil.
func (r Report) Failed() *Finding {
	for i, f := range r.Findings {
		if f.Result == Fail {
			return &r.Findings[i]
		}
	}
	return nil
}

// minSensibleTTL is for the holder's sake rather than the store's: a process may
// have to wait that long for a processor.
const minSensibleTTL = time.Second

// ttlRoundTrips is how many of the slowest answers fit into a sensible TTL. The
// Client renews from a third of the TTL on and gives up a sixteenth before its
// end, so that 18 of them fit in between: a renewal may go wrong several times, or
// take several times as long as anything did while it was measured.
const ttlRoundTrips = 30

// sensibleTTL is the shortest that makes sense with a store whose slowest answer
// took so long, rounded up to what people write.
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
