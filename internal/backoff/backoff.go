// Package backoff returns growing, random pauses between attempts.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a pause that doubles up to a limit, plus or minus a random half, so that callers
// that failed together do not return together. The zero value has no pauses.
type Backoff struct{ next, limit time.Duration }

// New returns a Backoff with pauses that grow from first to limit, on average.
func New(first, limit time.Duration) Backoff { return Backoff{min(first, limit), limit} }

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	p := b.next
	b.next = min(2*b.next, b.limit)
	if p <= 0 {
		return 0
	}
	return p/2 + rand.N(p)
}

// Wait waits for the pause. It returns ctx.Err() if ctx ends first.
func Wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
