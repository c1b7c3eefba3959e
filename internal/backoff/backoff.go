// Package backoff has pauses between tries that get longer.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a pause that doubles up to a limit, spread by half in both directions, so that
// callers that failed together do not return together. The zero value has no pauses.
type Backoff struct{ next, limit time.Duration }

// New returns the pauses from first, on average, up to limit.
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

// Wait waits for a pause. The error is ctx.Err() if ctx ends.
func Wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
