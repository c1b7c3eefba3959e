package holdfast

import (
	"context"
	"errors"
	"time"
)

// wait asks until the resource is granted, in line with the Client's others.
//
// The first in line tries; if the resource is held, it subscribes, and only when
// that is effective tries again, so that a release in between is not missed; then
// it waits for a signal, the holders' end or the back-off, whichever is first. The
// others wait until they are invited.
func (a *asker) wait(ctx context.Context) (h *Hold, err error) {
	c := a.c
	attempt := c.enter(a)
	defer func() { c.leave(a, h != nil) }()
	watch := watcher{c: c, resource: a.q.Resource}
	defer watch.stop()
	failures, polls, lulls := retries(), backoff{min(pollFirst, c.poll), c.poll}, backoff{watchFirst, watchLimit}
	pause := never
	for stand := attempt == 0; ; attempt = 0 {
		if stand {
			if err := a.pause(ctx, pause, &watch); errors.Is(err, ErrClosed) {
				return nil, a.giveUp(err)
			} else if err != nil {
				return nil, a.giveUp(c.notGranted(a, err))
			}
		}
		if attempt == 0 {
			if attempt, err = c.takeTurn(a); err != nil {
				return nil, a.giveUp(err)
			}
		}
		h, err := a.ask(ctx)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, errLate):
			stand = false
			continue
		case errors.Is(err, ErrTTLTooShort):
			return nil, a.giveUp(err)
		case c.life.Err() != nil && !answered(err):
			return nil, a.giveUp(ErrClosed)
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			// It was cut off: this says nothing of the store.
			return nil, a.giveUp(c.notGranted(a, ctxError(ctx)))
		}
		first, hopeless := c.hear(a, attempt, err)
		stand, pause = true, never
		var held *HeldError
		switch {
		case errors.As(err, &held):
			if held.BySelf {
				return nil, a.giveUp(held)
			}
			a.warnOfLimit(held)
			a.q.Waiting = true
			failures = retries()
			if !first {
				continue
			}
			if watch.start(ctx) {
				stand = false
				continue
			}
			// A hint of 0 is none, or a moment too short for the store to tell.
			if pause = polls.pause(); watch.signal != nil && held.RetryAfter != 0 {
				pause = c.inStep(lulls.pause())
			}
			if held.RetryAfter > 0 && held.RetryAfter != Forever {
				// It counts from the store's answer and is a moment old, so this is late
				// rather than early. The ms covers what the store rounds off.
				pause = min(pause, held.RetryAfter+time.Millisecond)
			}
		case permanent(err), hopeless:
			return nil, a.giveUp(err)
		case ctx.Err() != nil:
			return nil, a.giveUp(c.notGranted(a, ctxError(ctx)))
		default:
			c.warns("holdfast: no answer to an acquire, will repeat it", "resource", a.q.Resource, "error", err)
			if first {
				pause = failures.pause()
			}
		}
	}
}

// warnOfLimit says, once, that those who share the resource do not agree on how
// many may: the wait may be long, or for ever.
func (a *asker) warnOfLimit(held *HeldError) {
	if held.LimitDiffers && !a.warned {
		a.warned = true
		a.c.warns("holdfast: waiting for shared holds with another limit", "resource", a.q.Resource,
			"limit", a.q.Limit, "error", held)
	}
}
