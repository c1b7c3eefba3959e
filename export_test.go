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
func (c *Client) RunDo(ctx context.Context, h *Hold, fn func(context.Context) error) error {
	return c.run(ctx, h, fn)
}
