package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// maxLate is how many grants in a row may come too late.
const maxLate = 3

// maxTries is how often a TryLock without an answer is sent.
const maxTries = 3

// asker is one Lock or TryLock under way.
type asker struct {
	c     *Client
	q     driver.AcquireRequest // TTL: that of the lease asked for
	ttl   time.Duration         // that of the lock: may be Forever
	named bool                  // the caller chose the lock ID
	keep  bool                  // keep alive

	// sent is when the first attempt with the present hold ID was sent; tried
	// says that there was one.
	sent   time.Duration
	heard  time.Duration // when the last attempt was answered
	tried  bool
	unsure int // attempts with that ID that may be applied, early or late, for nobody
	late   int
	warned bool    // of limits that differ
	first  attempt // here to save an allocation

	place // guarded by c.mu
}

// newAsker checks the arguments.
func (c *Client) newAsker(resource string, mode Mode, o *LockOptions) (*asker, error) {
	a := &asker{c: c, named: o != nil && o.LockID != "", keep: o == nil || !o.NoKeepAlive}
	err := c.request(&a.q, resource, mode, o)
	if err != nil {
		return nil, err
	}
	a.ttl = a.q.TTL
	if a.ttl == Forever {
		// A lease without an end whose grant is never heard of would block
		// forever: it begins as a finite one.
		if a.q.TTL, err = c.validTTL(DefaultTTL); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// errLate: a grant came after the deadline of its hold. Ask again.
var errLate = errors.New("granted too late")

// ask makes one attempt. The answer is a hold, a *HeldError, errLate, or another
// error, for which answered tells whether the store gave it.
//
// While an attempt has no answer, the next one carries the same hold ID: if the
// first was applied it gets the same grant. The deadline counts from the first.
func (a *asker) ask(ctx context.Context) (*Hold, error) {
	if ctx.Err() != nil {
		return nil, ctxError(ctx)
	}
	c := a.c
	now := c.clock()
	if a.unsure > 0 && now >= c.deadlineOf(a.sent, a.q.TTL) {
		a.abandon() // a grant under this ID could no longer be used
	}
	if a.unsure == 0 {
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
	g, err := c.store.Acquire(call, a.q)
	err = call.end(err)

	a.heard = c.clock()
	if c.trace.Attempt != nil {
		info := AttemptInfo{Resource: a.q.Resource, LockID: a.q.LockID, Mode: a.q.Mode, Took: a.heard - now, Err: err}
		c.teller.tell(func() { c.trace.Attempt(info) })
	}
	switch {
	case err == nil && a.heard < c.deadlineOf(a.sent, a.q.TTL):
		return c.hold(ctx, a, g)
	case err == nil:
		a.unsure++
		return nil, a.tooLate(ctx)
	case !answered(err):
		a.unsure++
		return nil, err
	}
	if a.unsure > 0 {
		a.abandon() // an earlier attempt may still arrive
	}
	var held *HeldError
	if errors.As(err, &held) {
		a.late = 0
		if held.BySelf {
			c.mu.Lock()
			held.BySelf = !c.onlyOrphans(held, a.q.LockID)
			c.mu.Unlock()
		}
	}
	return nil, err
}

// tooLate gives a late grant back and says whether to ask again.
func (a *asker) tooLate(ctx context.Context) error {
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

// abandon has the present hold ID cleaned up in the background and takes a new
// one. The channel closes when the store was asked to for the first time.
func (a *asker) abandon() <-chan struct{} {
	asked := a.c.cleanUp(a.q, a.unsure)
	a.q.HoldID = driver.NewHoldID()
	a.tried, a.unsure = false, 0
	return asked
}

// giveUp ends an asker that was not granted. err is the last attempt's error, if
// it had no answer, or why the wait ended.
func (a *asker) giveUp(err error) error {
	if a.unsure > 0 {
		a.abandon()
	}
	return wrap("lock", a.q.Resource, err)
}

// waited reports whether the resource could not be granted at once: the asker was
// refused, or stood in line behind another.
func (a *asker) waited() bool { return a.q.Waiting || a.stood }

// try asks until there is an answer, maxTries times without one.
func (a *asker) try(ctx context.Context) (*Hold, error) {
	pauses := retries()
	for n := 1; ; n++ {
		h, err := a.ask(ctx)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, errLate):
			continue
		case answered(err), errors.Is(err, ErrTTLTooShort), ctx.Err() != nil, n == maxTries:
			return nil, a.giveUp(a.c.whyEnded(err))
		}
		switch end := a.pause(ctx, pauses.pause(), &watcher{}); {
		case errors.Is(end, ErrClosed):
			return nil, a.giveUp(end)
		case end != nil:
			return nil, a.giveUp(endedWith(ctx, err))
		}
	}
}

// pause waits for the time to pass, for an invitation or a wake-up, or for the
// end, in which case it says why.
func (a *asker) pause(ctx context.Context, d time.Duration, watch *watcher) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.turn:
	case _, open := <-watch.signal:
		if !open {
			watch.ended()
		}
	case <-ctx.Done():
		return ctxError(ctx)
	case <-a.c.life.Done():
		return ErrClosed
	}
	return nil
}
