package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// maxLate is how many grants in a row may come too late.
const maxLate = 3

// maxTries is how often a TryLock without an answer is sent.
const maxTries = 3

// How long a Lock waits before it tries again.
const (
	// pollFirst and pollLimit: where the store sends no signal.
	pollFirst = 10 * time.Millisecond
	pollLimit = 500 * time.Millisecond
	// watchFirst and watchLimit: where it does, in case a signal is missed. They do
	// not delay the wait for a holder that died, because its end is known.
	watchFirst = 5 * time.Second
	watchLimit = 10 * time.Second
)

// acquirer is one Lock or TryLock under way.
type acquirer struct {
	c     *Client
	q     driver.AcquireRequest // TTL: that of the lease asked for
	ttl   time.Duration         // that of the lock: may be Forever
	named bool                  // the caller chose the lock ID: this Client may hold by it
	keep  bool                  // keep alive

	warned     bool          // of limits that differ
	tried      bool          // with the present hold ID
	asked      bool          // the store, or it queued behind another that did
	waits      bool          // it was refused, or queued behind another; guarded by c.mu
	waitsSince time.Duration // guarded by c.mu
	scope      *scope        // of what a Trace is told; nil: there is none
	pacer      retryPacer

	sent    time.Duration  // when the first of these attempts was sent
	unknown int            // how many of them may be applied, now or later, without an answer
	heard   time.Duration  // when the last attempt was answered
	late    int            // grants in a row that came too late
	kept    driver.PlaceID // the place that it confirmed
	first   attempt        // here to save an allocation

	member // guarded by c.mu
}

// newAcquirer checks the arguments. It returns an acquirer even if they are wrong.
func (c *Client) newAcquirer(resource string, mode Mode, o *LockOptions) (*acquirer, error) {
	a := &acquirer{c: c, named: o != nil && o.LockID != "", keep: o == nil || !o.NoKeepAlive}
	err := c.request(&a.q, resource, mode, o)
	a.ttl = a.q.TTL
	if a.ttl == Forever && err == nil {
		// If the answer to its grant got lost, a lease without an end would block the
		// resource forever. So it begins with a finite one.
		a.q.TTL, err = c.validTTL(DefaultTTL)
	}
	return a, err
}

// errLate: a grant came after the deadline of its hold. Another attempt may succeed.
var errLate = errors.New("granted too late")

// once makes one attempt. It returns a hold, a *HeldError, errLate, or another error;
// answered reports whether that is the store's answer. now is the present time.
//
// After an attempt without an answer, the next one carries the same hold ID: if the
// first was applied, it gets the same grant. The deadline counts from the first.
func (a *acquirer) once(ctx context.Context, now time.Duration) (*Hold, error) {
	if ctx.Err() != nil {
		return nil, foreign.CtxError(ctx)
	}
	c := a.c
	if a.unknown > 0 && now >= c.deadlineOf(a.sent, a.q.TTL) {
		a.abandon() // a grant under this ID could no longer be used
	}
	if a.unknown == 0 {
		if a.tried {
			a.q.HoldID = driver.NewHoldID()
		}
		a.sent, a.tried = now, true
	}
	call := &a.first
	if call.client != nil {
		call = new(attempt) // the store may still look at the one before
	}
	call.parent, call.client, call.timeout = ctx, c, attemptTimeout(a.q.TTL)
	if !a.q.Place.IsZero() {
		// It must be asked for again before it ends: one request may get lost. A slow
		// store gets more time.
		lost := a.unknown
		if a.q.Place == a.kept {
			lost = max(lost-1, 0) // then there is time for a second one
		}
		took := time.Duration(c.acquireTook.Load())
		call.timeout = min(call.timeout, max(a.q.PlaceTTL()/4<<min(lost, 4), 2*took))
	}
	a.asked = true
	traced := a.attemptStart(now)
	g, err := c.store.Acquire(call, a.q)
	err = call.end(err)

	a.heard = c.clock()
	if err == nil || answered(err) {
		c.acquireTook.Store(int64(a.heard - now))
	}
	traced.end(a.heard-now, g.Token, err)
	switch {
	case err == nil && a.heard < c.deadlineOf(a.sent, a.q.TTL):
		return c.hold(ctx, a, g)
	case err == nil:
		a.unknown++
		return nil, a.tooLate(ctx)
	case !answered(err):
		a.unknown++
		return nil, err
	}
	if a.unknown > 0 {
		a.abandon() // an earlier attempt may still arrive
	}
	a.kept = driver.PlaceID{}
	var held *HeldError
	if errors.As(err, &held) {
		a.late = 0
		if held.Position != driver.NoPlace {
			a.kept = a.q.Place
		}
	}
	return nil, err
}

// tooLate releases a late grant. It returns errLate if another attempt may help.
func (a *acquirer) tooLate(ctx context.Context) error {
	select {
	case <-a.abandon():
	case <-ctx.Done():
	}
	if a.late++; a.late == maxLate {
		return fmt.Errorf("%w: %d grants in a row took longer than the TTL of %v less its margin",
			ErrTTLTooShort, maxLate, a.q.TTL)
	}
	return errLate
}

// abandon starts the clean-up of the present hold ID in the background, and takes a
// new one. The channel closes after the first release.
func (a *acquirer) abandon() <-chan struct{} {
	asked := a.c.cleanUp(a.q, a.unknown)
	a.c.strayFrom(a.q)
	a.q.HoldID = driver.NewHoldID()
	a.tried, a.unknown = false, 0
	return asked
}

// giveUp ends an acquirer that was not granted. err is the error of the last attempt,
// or why the wait ended.
func (a *acquirer) giveUp(err error) error {
	if a.unknown > 0 {
		a.abandon()
	}
	return wrap("lock", a.q.Resource, err)
}

// try makes attempts until one is answered, and at most maxTries.
func (a *acquirer) try(ctx context.Context) (*Hold, error) {
	pauses := retries()
	for n := 1; ; n++ {
		h, err := a.once(ctx, a.c.clock())
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, errLate):
			continue
		case answered(err), errors.Is(err, ErrTTLTooShort), ctx.Err() != nil, n == maxTries:
			return nil, a.giveUp(a.c.closedOr(a.toldOnce(err)))
		}
		switch end := a.pause(ctx, pauses.Next(), &subscription{}); {
		case errors.Is(end, ErrClosed):
			return nil, a.giveUp(end)
		case end != nil:
			return nil, a.giveUp(endedWith(ctx, err))
		}
	}
}

// toldOnce returns what a TryLock is told of the answer: BySelf is for holds of this Client.
func (a *acquirer) toldOnce(err error) error {
	var held *HeldError
	if !errors.As(err, &held) || !held.BySelf {
		return err
	}
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if a.c.ownHold(a) != nil {
		return err
	}
	other := *held // Trace has the first
	other.BySelf = false
	return &other
}

// pause waits until the time has passed, for an invitation or for a wake-up that is
// worth an attempt. If the wait is over instead, it returns why.
func (a *acquirer) pause(ctx context.Context, d time.Duration, watch *subscription) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-a.turn:
		case _, open := <-watch.signal:
			if !open {
				watch.ended()
			} else if !a.pacer.signalled() {
				continue
			}
		case <-ctx.Done():
			return foreign.CtxError(ctx)
		case <-a.c.life.Done():
			return ErrClosed
		}
		return nil
	}
}

// wait tries until the resource is granted, in the Client's queue for it.
//
// The first of the queue tries. If the resource is held, it subscribes. When the
// subscription is effective, it tries again, so that it does not miss a release in
// between. Then it waits for a signal, the end of the holds or the back-off, whichever
// is first. The others wait until they are invited.
func (a *acquirer) wait(ctx context.Context) (h *Hold, err error) {
	first, now := a.c.enqueue(a)
	defer func() { a.c.dequeue(a, h != nil) }()
	watch := subscription{c: a.c, resource: a.q.Resource}
	defer watch.stop()
	return a.waitWith(ctx, first, now, &watch)
}

// waitWith is wait once the acquirer is in the queue; first is that of enqueue. It is
// a function of its own because defers cost more in one with many returns.
func (a *acquirer) waitWith(ctx context.Context, first bool, now time.Duration, watch *subscription) (_ *Hold, err error) {
	c := a.c
	failures, polls, lookouts := retries(), backoff.New(pollFirst, c.opts.Poll), backoff.New(watchFirst, watchLimit)
	pause := never
	for wait := !first; ; first = false {
		if wait {
			if err := a.pause(ctx, pause, watch); errors.Is(err, ErrClosed) {
				return nil, a.giveUp(err)
			} else if err != nil {
				return nil, a.giveUp(c.waitError(a, err))
			}
		}
		if !first {
			if now, err = c.takeTurn(a); err != nil {
				return nil, a.giveUp(err)
			}
		}
		h, err := a.once(ctx, now)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, errLate):
			wait = false
			continue
		case errors.Is(err, ErrTTLTooShort):
			return nil, a.giveUp(err)
		case c.life.Err() != nil && !answered(err):
			return nil, a.giveUp(ErrClosed)
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			// The caller's ctx cut it off: this says nothing about the store.
			return nil, a.giveUp(c.waitError(a, foreign.CtxError(ctx)))
		}
		head, over := c.noteAnswer(a, err)
		wait, pause = true, never
		var held *HeldError
		switch {
		case over != nil:
			return nil, a.giveUp(over)
		case errors.As(err, &held):
			a.warnOfLimit(held)
			failures = retries()
			if !head {
				continue
			}
			if watch.start(ctx) {
				wait = false
				continue
			}
			// A hint of 0 is no hint, or a time too short for the store to return.
			notified := watch.signal != nil
			soonest, most := min(pollFirst, c.opts.Poll), c.opts.Poll
			if pause = polls.Next(); notified {
				soonest, most = askFirst, askAtLeast
				if held.RetryAfter != 0 {
					pause = c.alignWake(lookouts.Next())
				}
			}
			pause = min(a.pacer.nextPause(&a.q, held, pause, soonest, most), hint(held), c.untilPlace(a))
		case permanent(err):
			return nil, a.giveUp(err)
		case ctx.Err() != nil:
			return nil, a.giveUp(c.waitError(a, foreign.CtxError(ctx)))
		default:
			c.warn("holdfast: no answer to an acquire, will repeat it", "resource", a.q.Resource, "error", err)
			if head {
				pause = failures.Next()
			}
		}
	}
}

// warnOfLimit warns once that holders and this acquirer disagree on the limit: the
// wait may be long, or never end.
func (a *acquirer) warnOfLimit(held *HeldError) {
	if held.LimitDiffers && !a.warned {
		a.warned = true
		a.c.warn("holdfast: waiting for shared holds with another limit", "resource", a.q.Resource,
			"limit", a.q.Limit, "error", held)
	}
}

// wakeInterval is the time between two moments at which a Client polls in case a
// signal was missed. To wake the process costs many times what an attempt costs, so
// all attempts that are due share a moment.
const wakeInterval = time.Second

// alignWake lengthens the pause to end at such a moment. The moments differ between
// Clients.
func (c *Client) alignWake(pause time.Duration) time.Duration {
	now := c.clock()
	return (now + pause).Truncate(wakeInterval) + wakeInterval - now
}
