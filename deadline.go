package holdfast

import (
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A hold counts as lost from its local deadline on, a margin before its end in the
// store, so that its context ends before the store grants the resource to another
// holder: see docs/adr/0015. internal/clock is the clock of deadlines, hold.go sets
// the first deadline of a hold, and keepalive.go moves it.

// minMargin is the smallest margin that a Client accepts.
const minMargin = 50 * time.Millisecond

// marginOf returns how long before its end a hold with that TTL counts as lost.
func (cfg *config) marginOf(ttl time.Duration) time.Duration {
	if cfg.opts.Margin != 0 {
		return cfg.opts.Margin
	}
	return driver.DefaultMargin(ttl)
}

// never is a deadline that does not come.
const never = time.Duration(math.MaxInt64)

// deadlineOf returns the local deadline of a hold after a grant or a renewal. It counts
// from before the request was sent: however late the answer came, the hold does not end
// in the store earlier.
func (cfg *config) deadlineOf(sent, ttl time.Duration) time.Duration {
	if ttl == Forever {
		return never
	}
	return sent + ttl - cfg.marginOf(ttl)
}
