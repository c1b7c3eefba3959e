package holdfast

import (
	"context"
	"log/slog"
	"time"
)

// maxUntold is how many calls of the Logger and the Trace may wait.
const maxUntold = 10_000

// log queues a log line with the present time. Handler.Enabled is the user's code as
// well, so it is called later.
func (c *Client) log(ctx context.Context, level slog.Level, text string, args ...any) {
	if c.opts.Logger == nil {
		return
	}
	r := slog.NewRecord(time.Now(), level, text, 0)
	r.Add(args...)
	ctx = context.WithoutCancel(ctx)
	c.notifier.Add(func() {
		if h := c.opts.Logger.Handler(); h.Enabled(ctx, level) {
			_ = h.Handle(ctx, r) // there is no caller to return the error to
		}
	})
}

func (c *Client) warn(text string, args ...any) {
	c.log(context.Background(), slog.LevelWarn, text, args...)
}

// sayLeftOut is called by the notifier.
func (c *Client) sayLeftOut(n int) {
	if c.opts.Logger != nil {
		c.opts.Logger.Warn("holdfast: the Logger or the Trace is too slow, calls were left out", "leftOut", n)
	}
}
