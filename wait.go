package holdfast

import (
	"context"
	"errors"
	"time"
)

// wait asks until the resource is granted, in line with the Client's others.
func (a *asker) wait(ctx context.Context) (*Hold, error) {
	turn := a.c.enter(a)
	defer a.c.leave(a)
	if !turn {
		select {
		case own := <-a.turn:
			if own != nil {
				return nil, own
			}
		case <-ctx.Done():
			return nil, a.gaveUpWaiting(ctxError(ctx))
		case <-a.c.life.Done():
			return nil, ErrClosed
		}
	}
	return a.lead(ctx)
}

// lead is the wait of the head of the line: try; if held, subscribe, and only
// when that is effective try again, so that a release in between is not missed;
// then wait for a signal, the holders' end or the back-off, whichever is first.
func (a *asker) lead(ctx context.Context) (*Hold, error) {
	c := a.c
	watch := watcher{c: c, resource: a.q.Resource}
	defer watch.stop()
	unanswered := never // since when attempts have had no answer
	failures, polls, lulls := retries(), backoff{pollFirst, pollLimit}, backoff{watchFirst, watchLimit}
	for {
		h, err := a.ask(ctx)
		if err == nil {
			return h, nil
		}
		var pause time.Duration
		var held *HeldError
		switch {
		case errors.Is(err, errLate):
			continue
		case errors.As(err, &held):
			unanswered, failures = never, retries()
			if held.BySelf {
				return nil, held
			}
			a.q.Waiting = true
			if watch.start(ctx) {
				continue
			}
			if watch.signal != nil {
				pause = c.inStep(lulls.pause())
			} else {
				pause = polls.pause()
			}
			if held.RetryAfter >= 0 && held.RetryAfter != Forever {
				// The hint counts from the store's answer and is a moment old, so this
				// is late rather than early. The ms covers what the store rounds off.
				pause = min(pause, held.RetryAfter+time.Millisecond)
			}
		case answered(err), errors.Is(err, ErrTTLTooShort):
			return nil, a.giveUp(err)
		case c.life.Err() != nil:
			return nil, a.giveUp(ErrClosed)
		case ctx.Err() != nil && a.waited():
			return nil, a.giveUp(a.gaveUpWaiting(ctxError(ctx)))
		case ctx.Err() != nil:
			return nil, a.giveUp(endedWith(ctx, err))
		default:
			now := c.clock()
			unanswered = min(unanswered, now)
			if now-unanswered >= patience(a.q.TTL) {
				return nil, a.giveUp(err)
			}
			c.log.Warn("holdfast: no answer to an acquire, will repeat it", "resource", a.q.Resource, "error", err)
			pause = failures.pause()
		}
		if err := a.pause(ctx, pause, &watch); err != nil {
			if !errors.Is(err, ErrClosed) && a.waited() {
				err = a.gaveUpWaiting(err)
			}
			return nil, a.giveUp(err)
		}
	}
}

// patience is how long attempts may go unanswered before a Lock gives up.
func patience(ttl time.Duration) time.Duration {
	return min(max(ttl, time.Second), DefaultTTL)
}
