package holdfast

import (
	"context"
	"time"
)

// WithClock returns a copy of the options, of which nil is the default, with a clock of
// deadlines. It must count the time that the machine sleeps, and never go back.
func WithClock(clock func() time.Duration, o *Options) *Options {
	var own Options
	if o != nil {
		own = *o
	}
	own.clock = clock
	return &own
}

// RunDo is what Do does once it has the lock.
func RunDo(ctx context.Context, c *Client, h *Hold, fn func(context.Context) error) error {
	return c.run(ctx, h, fn)
}

// Waits returns how many wait, and Orphans how many clean-ups there are.
func Waits(c *Client) int   { return len(c.lines.Waiting()) }
func Orphans(c *Client) int { return c.cleaner.Len() }

// EndWaitsOf ends waits as the grant of a hold by the same lock ID does.
func EndWaitsOf(c *Client, resource, lockID string) {
	c.lines.Reject(resource, lockID, &HeldError{Resource: resource, BySelf: true})
}
