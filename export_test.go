package holdfast

import (
	"context"
	"time"
)

// WithClock returns a copy of the options, or of the defaults if they are nil, with another
// clock for deadlines. The clock must count the time that the machine sleeps and never go
// back.
func WithClock(clock func() time.Duration, o *Options) *Options {
	var own Options
	if o != nil {
		own = *o
	}
	own.clock = clock
	return &own
}

// RunDo is the part of Do after the lock was acquired.
func RunDo(ctx context.Context, c *Client, h *Hold, fn func(context.Context) error) error {
	return c.run(ctx, h, fn)
}

// Waits returns the number of waiters, and Orphans the number of clean-ups.
func Waits(c *Client) int   { return len(c.lines.Waiting()) }
func Orphans(c *Client) int { return c.cleaner.Len() }

// EndWaitsOf rejects waiters, like the grant of a hold by the same lock ID.
func EndWaitsOf(c *Client, resource, lockID string) {
	c.lines.Reject(resource, lockID, &HeldError{Resource: resource, BySelf: true})
}
