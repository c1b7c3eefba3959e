package holdfast

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxUntold is how many calls may wait. Further calls are left out.
const maxUntold = 10_000

// notifier calls the user's code, the Logger and the Trace, in the order in which
// things happened. Its goroutine does nothing else, and exists while there is
// anything to call: docs/adr/0019.
type notifier struct {
	overflow func(leftOut int) // called when there is room again

	mu      sync.Mutex // never held across a call of the user's code
	calls   []func()
	leftOut int
	done    chan struct{} // closed when nothing is left to call; nil: nothing is
}

// notify queues a call of the user's code. It never waits, and may be called with
// Client.mu held.
func (n *notifier) notify(call func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.calls) == maxUntold {
		n.leftOut++
		return
	}
	n.calls = append(n.calls, call)
	if n.done == nil {
		n.done = make(chan struct{})
		go n.run()
	}
}

// run makes all calls. One may end the goroutine, as t.FailNow of a test does: then
// another goroutine goes on with the rest.
func (n *notifier) run() {
	call := n.next()
	defer func() {
		if call != nil {
			go n.run()
		}
	}()
	for call != nil {
		call()
		call = n.next()
	}
}

// next returns the next call, or nil if there is none.
func (n *notifier) next() func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case len(n.calls) > 0:
		call := n.calls[0]
		n.calls[0] = nil
		n.calls = n.calls[1:]
		return call
	case n.leftOut > 0:
		leftOut := n.leftOut
		n.leftOut = 0
		return func() { n.overflow(leftOut) }
	}
	close(n.done)
	n.done = nil
	return nil
}

// pending returns a channel that closes when nothing is left to call, or nil if
// nothing is.
func (n *notifier) pending() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.done
}

// log queues a log line with the present time. Handler.Enabled is the user's code as
// well, so it is called later.
func (c *Client) log(ctx context.Context, level slog.Level, text string, args ...any) {
	if c.opts.Logger == nil {
		return
	}
	r := slog.NewRecord(time.Now(), level, text, 0)
	r.Add(args...)
	ctx = context.WithoutCancel(ctx)
	c.notifier.notify(func() {
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
