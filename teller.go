package holdfast

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxUntold is how much may wait to be told: what comes on top of it is left out.
const maxUntold = 10_000

// teller calls the user's code, the Logger and the Trace, in the order in which
// things happened, in a goroutine that does nothing else and is there while there
// is anything to tell. However long the user's code takes, no deadline, no renewal
// and nobody who waits for a lock waits for it.
type teller struct {
	overflow func(leftOut int) // called when there is room again

	mu      sync.Mutex // never held across a call of the user's code
	untold  []func()
	calls   []func() // under way
	leftOut int
	done    chan struct{} // closes when all is told; nil: it is
}

// tell has the user's code called. It never waits, and may be called with
// Client.mu held.
func (t *teller) tell(call func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.untold) == maxUntold {
		t.leftOut++
		return
	}
	t.untold = append(t.untold, call)
	if t.done == nil {
		t.done = make(chan struct{})
		go t.run()
	}
}

// run tells all that there is. What is called may end the goroutine, as t.FailNow
// of a test does: then another one goes on with the rest.
func (t *teller) run() {
	ended := false
	defer func() {
		if !ended {
			go t.run()
		}
	}()
	for {
		for len(t.calls) > 0 {
			call := t.calls[0]
			t.calls[0] = nil
			t.calls = t.calls[1:]
			call()
		}
		t.mu.Lock()
		leftOut := t.leftOut
		t.calls, t.untold, t.leftOut = t.untold, nil, 0
		if len(t.calls) == 0 && leftOut == 0 {
			close(t.done)
			t.done, ended = nil, true
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		if leftOut > 0 {
			t.overflow(leftOut)
		}
	}
}

// told returns a channel that closes when nothing is left to tell, or nil if
// nothing is.
func (t *teller) told() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// logs has a line logged, with the present time. Whether anybody wants it is for
// the user's Handler to say, and so it is not asked here.
func (c *Client) logs(ctx context.Context, level slog.Level, text string, args ...any) {
	if c.logger == nil {
		return
	}
	r := slog.NewRecord(time.Now(), level, text, 0)
	r.Add(args...)
	ctx = context.WithoutCancel(ctx)
	c.teller.tell(func() {
		if h := c.logger.Handler(); h.Enabled(ctx, level) {
			_ = h.Handle(ctx, r) // nobody is there to be told of its error
		}
	})
}

func (c *Client) warns(text string, args ...any) {
	c.logs(context.Background(), slog.LevelWarn, text, args...)
}

// sayLeftOut runs in the teller.
func (c *Client) sayLeftOut(n int) {
	if c.logger != nil {
		c.logger.Warn("holdfast: the Logger or the Trace is too slow, not all could be told", "leftOut", n)
	}
}
