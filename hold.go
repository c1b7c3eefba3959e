package holdfast

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// Hold is a lock that was granted. It lives until Unlock or until it is lost; its
// Context ends with it. All methods may be called concurrently.
type Hold struct {
	client *Client
	ref    driver.HoldRef
	mode   Mode
	delay  time.Duration   // the takeover delay
	stray  time.Duration   // when no earlier attempt can arrive any more; 0: there was none without an answer
	place  driver.PlaceID  // that these attempts would take again
	parent context.Context // whose values Context carries
	traced *tracedHold     // nil: there is no Trace

	keep bool // renewed by the Client

	// Guarded by client.mu.
	ctx      context.Context // made by Context
	cancel   context.CancelCauseFunc
	ended    error // the cause of ctx, once the hold has ended
	state    state
	endless  bool  // a request to keep it Forever was sent at some time
	inFlight bool  // the keep-alive has sent a renewal that has no answer yet
	inDo     bool  // Do runs its function, and releases it afterwards
	isWanted bool  // a renewal said that somebody waits
	loss     error // *LostError, if lost
	ttl      time.Duration
	deadline time.Duration   // on the client's clock; final once it has passed
	renewAt  time.Duration   // when the keep-alive renews it next
	failure  error           // of the last renewal, nil if it was answered
	pauses   backoff.Backoff // after renewals that failed
	wanted   chan struct{}   // made by Wanted
	freeFrom time.Duration   // by UnlockAfter: an Unlock that repeats it keeps the delay

	bound map[*binding]context.CancelFunc // of the contexts that Bind gave
}

// state of a Hold. It goes from live to released and gone, or to lost.
type state uint8

const (
	live     state = iota
	released       // by the holder; the store may not have confirmed it yet
	gone           // released, and the store has confirmed it
	lost
)

// hold returns the Hold of a grant, which the keep-alive renews from now on.
func (c *Client) hold(ctx context.Context, a *acquirer, g driver.Grant) (*Hold, error) {
	h := &Hold{
		client: c,
		ref:    driver.HoldRef{Resource: a.q.Resource, LockID: a.q.LockID, HoldID: a.q.HoldID, Token: g.Token},
		mode:   a.q.Mode, keep: a.keep,
		parent:   ctx,
		ttl:      a.ttl,
		endless:  a.ttl == Forever,
		delay:    a.q.TakeoverDelay,
		deadline: c.deadlineOf(a.sent, a.q.TTL),
		renewAt:  a.sent + a.q.TTL/3, // of Forever, the first lease
	}
	if a.unknown > 0 {
		h.stray = a.heard + strayOf(a.q)
		if a.q.Fair {
			h.place = a.q.Place
		}
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.holds[h.ref.HoldID] = h
		if a.named {
			c.named[lockKey{h.ref.Resource, h.ref.LockID}] = h
			c.rejectOwn(h)
		}
		h.holdStart(a)
		if was, ok := c.revoked[h.ref.HoldID]; ok && was.token == h.ref.Token {
			was.end(h)
		}
		c.armFor(h, a.heard)
		c.planSweep()
	}
	c.mu.Unlock()
	if closed {
		a.unknown++
		a.abandon()
		return nil, ErrClosed
	}
	return h, nil
}

// Client returns the Client that acquired it.
func (h *Hold) Client() *Client { return h.client }

// Resource returns the name of what is locked.
func (h *Hold) Resource() string { return h.ref.Resource }

// LockID returns the lock ID that holds it.
func (h *Hold) LockID() string { return h.ref.LockID }

// ID returns the hold ID, which names this acquisition.
func (h *Hold) ID() HoldID { return h.ref.HoldID }

// Token returns the fencing token, which is higher than that of every earlier hold of
// the resource. Send it with each write under an exclusive lock, and let the receiver
// of the writes refuse lower tokens. It is 0 if the store has no tokens.
func (h *Hold) Token() uint64 { return h.ref.Token }

// Mode returns Exclusive or Shared.
func (h *Hold) Mode() Mode { return h.mode }

// Context returns a context that ends when the lock is no longer held. Its
// context.Cause is ErrReleased after Unlock, ErrClosed after Close, or a *LostError,
// before the store can grant the resource to another client. The context has the
// values of the ctx that the lock was acquired with, but does not end with that. It is not
// bound to the hold, as the contexts of Bind and Do are: a Lock of the same resource with it
// waits.
//
// If the process was stopped meanwhile, a timer ends the context a moment after it runs
// again. Context, Bind and Left look at the clock: what they return knows at once.
func (h *Hold) Context() context.Context {
	h.client.mu.Lock()
	defer h.client.mu.Unlock()
	h.client.expire(h)
	if h.ctx == nil {
		h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(h.parent))
		if h.ended != nil {
			h.cancel(h.ended)
		}
	}
	return h.ctx
}

// Wanted returns a channel that is closed once somebody waits for the resource, in the
// queue of the store (Traits.Queue). A holder may release early then. The Client learns of
// waiters when it renews the hold: within a third of the TTL, or within 30 s if the TTL is
// Forever. With LockOptions.NoKeepAlive it learns of them only by Hold.Renew.
func (h *Hold) Wanted() <-chan struct{} {
	h.client.mu.Lock()
	defer h.client.mu.Unlock()
	if h.wanted == nil {
		h.wanted = make(chan struct{})
		if h.isWanted {
			close(h.wanted)
		}
	}
	return h.wanted
}

// noteWaiters notes how many wait for the resource. c.mu is held.
func (h *Hold) noteWaiters(n int) {
	if n == 0 || h.isWanted {
		return
	}
	h.isWanted = true
	if h.wanted != nil {
		close(h.wanted)
	}
}

// Bind returns a copy of ctx that ends also when the hold does. Call the CancelFunc
// when the work is done. If the hold has ended, so has the copy. A Lock of the same
// resource with that context fails with ErrHeld at once, because it would wait for itself.
func (h *Hold) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	c, b := h.client, &binding{hold: h, outer: bindingOf(ctx)}
	bound, cancel := context.WithCancelCause(context.WithValue(ctx, bindingKey{}, b))
	own := h.Context()
	end := func() { cancel(context.Cause(own)) }
	stop := context.AfterFunc(own, end)
	c.mu.Lock()
	if h.bound == nil {
		h.bound = make(map[*binding]context.CancelFunc)
	}
	h.bound[b] = end
	c.mu.Unlock()
	if own.Err() != nil {
		end()
	}
	return bound, func() {
		stop()
		c.mu.Lock()
		delete(h.bound, b)
		c.mu.Unlock()
		cancel(nil)
	}
}

// endBound ends the contexts bound to holds that have ended, before the store is asked
// to release these: context.AfterFunc starts a goroutine, which may come too late. c.mu
// is not held, because the parents of the contexts are the user's.
func (c *Client) endBound(hs ...*Hold) {
	var ends []context.CancelFunc
	c.mu.Lock()
	for _, h := range hs {
		if h != nil {
			ends = slices.AppendSeq(ends, maps.Values(h.bound))
			h.bound = nil
		}
	}
	c.mu.Unlock()
	for _, end := range ends {
		end()
	}
}

// Left returns the time until the hold counts as lost unless it is renewed. It is 0
// if the lock is no longer held, and Forever if the hold has no end.
func (h *Hold) Left() time.Duration {
	c := h.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.ended != nil {
		return 0
	}
	return h.left(c.clock())
}

// left is Left of a hold that has not ended. c.mu is held.
func (h *Hold) left(now time.Duration) time.Duration {
	if h.deadline == never {
		return Forever
	}
	return max(h.deadline-now, 0)
}

// Renew makes the hold live for ttl from now, or Forever, but never shorter than
// without it. Later keep-alives use this ttl; 0 means the present one. Renew fails
// with ErrReleased, with a *LostError, or, if the store does not answer, with an error
// that leaves the hold as it was.
func (h *Hold) Renew(ctx context.Context, ttl time.Duration) error {
	c := h.client
	if ttl != 0 {
		var err error
		if ttl, err = c.validTTL(ttl); err != nil {
			return wrap("renew", h.ref.Resource, err)
		}
	}
	if err := c.start(ctx); err != nil {
		return wrap("renew", h.ref.Resource, err)
	}
	defer c.work.Done()
	pauses := retries()
	for n := 1; ; n++ {
		sent, err := h.renewOnce(ctx, ttl)
		if !sent || err == nil || errors.Is(err, ErrLost) || answered(err) || n == maxTries {
			return err
		}
		select {
		case <-time.After(pauses.Next()):
		case <-ctx.Done():
			return wrap("renew", h.ref.Resource, endedWith(ctx, err))
		case <-h.Context().Done():
		}
	}
}

// renewOnce sends one renewal, unless the hold has ended.
func (h *Hold) renewOnce(ctx context.Context, ttl time.Duration) (sent bool, err error) {
	c := h.client
	c.mu.Lock()
	if ttl == 0 {
		ttl = h.ttl
	}
	if h.state != live {
		err := h.whyOver()
		c.mu.Unlock()
		return false, err
	}
	h.endless = h.endless || ttl == Forever // even if the answer never comes
	qs := []driver.RenewRequest{{HoldRef: h.ref, TTL: ttl}}
	c.mu.Unlock()
	began := c.clock()
	call := &attempt{parent: ctx, client: c, timeout: attemptTimeout(ttl)}
	results, err := c.store.Renew(call, qs)
	err = call.end(err)
	err = outcome(results, err, 0, renewErr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		h.ttl = ttl
		h.noteWaiters(results[0].Waiters)
	}
	return true, c.renewed(h, ttl, began, false, err)
}

// Unlock releases the lock: it cancels the hold's context, stops the renewal and sends
// the release to the store. Unlock uses only the values of ctx, so it can be deferred
// and works after ctx has ended. It repeats a release without an answer for at most
// 5 s, or until the hold ends anyway. An error then means that the hold may last until
// its end in the store, and Unlock may be called again. A hold without an end is
// released in the background as soon as the store answers, while the Client is open.
//
// Unlock returns nil if the lock was released before. If the lock was lost or its
// time is over, Unlock returns the *LostError at once, and releases the hold in the
// background if the store may still have it. It returns a *LostError as well if
// another program has renewed or retaken the lock with the same lock ID and still
// holds it.
func (h *Hold) Unlock(ctx context.Context) error { return h.unlock(ctx, 0) }

// UnlockAfter is like Unlock, but the store blocks the resource for that long from now,
// or until the hold's end if that is earlier. If it fails, a later Unlock repeats it with
// the rest of the delay.
func (h *Hold) UnlockAfter(ctx context.Context, after time.Duration) error {
	if after < 0 || after > MaxTTL {
		return fmt.Errorf("holdfast: unlock %q: %w: delay %v is not between 0 and 100 years",
			h.ref.Resource, ErrInvalid, after)
	}
	return h.unlock(ctx, after.Truncate(time.Millisecond))
}

func (h *Hold) unlock(ctx context.Context, after time.Duration) error {
	c := h.client
	c.mu.Lock()
	if after > 0 || h.freeFrom > 0 {
		now := c.clock()
		h.freeFrom = max(h.freeFrom, now+after)
		after = (h.freeFrom - now + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	shut := c.closed && (!h.inDo || c.opts.LeaveHolds)
	c.endHold(h, ErrReleased)
	switch {
	case h.state == gone:
		c.mu.Unlock()
		return nil
	case h.state == lost:
		if !shut {
			c.cleanLost(h, after)
		}
		c.mu.Unlock()
		return h.loss
	}
	if shut {
		c.mu.Unlock()
		return ErrClosed
	}
	if !c.closed { // else Do is among the work
		c.work.Add(1)
		defer c.work.Done()
	}
	deadline, endless := h.deadline, h.endless
	var began time.Duration
	if h.traced != nil {
		began = c.clock()
	}
	if o := c.cleaner.orphans[h.ref.HoldID]; o != nil {
		o.from = max(o.from, c.clock()+after) // it is of an earlier Unlock, which failed
	}
	bound := h.bound != nil
	c.mu.Unlock()
	if bound {
		c.endBound(h)
	}
	// The renewals have stopped, and the context has ended before the store gets the
	// release. A renewal that is on its way finds no hold, or arrives before the
	// release and does no harm.
	err := c.releaseOne(ctx, driver.ReleaseRequest{HoldRef: h.ref, After: after}, deadline)
	c.mu.Lock()
	c.released(h, began, err)
	c.cleanStrays(h, after)
	if endless && err != nil && !errors.Is(err, errRetaken) {
		c.cleanEndless(h, after)
	}
	c.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errRetaken):
		return h.lossBy(err)
	}
	return wrap("unlock", h.ref.Resource, err)
}

// expire loses a live hold whose time is over: the process or its machine was stopped, or
// the timer is late. c.mu is held.
func (c *Client) expire(h *Hold) {
	if h.state == live && c.clock() >= h.deadline {
		c.lose(h, nil)
	}
}

// endHold releases a live hold here, or loses it if its time is over. c.mu is held.
func (c *Client) endHold(h *Hold, cause error) {
	c.expire(h)
	if h.state == live {
		c.finish(h, released, cause)
	}
}

// finish ends the keep-alive of a live hold and cancels its context. c.mu is held:
// cancelling runs none of the user's code, because context.AfterFunc starts a
// goroutine.
func (c *Client) finish(h *Hold, to state, cause error) {
	h.state = to
	delete(c.holds, h.ref.HoldID)
	if key := (lockKey{h.ref.Resource, h.ref.LockID}); len(c.named) > 0 && c.named[key] == h {
		delete(c.named, key)
	}
	h.end(cause)
}

// end cancels the context of the hold, unless it has ended. c.mu is held.
func (h *Hold) end(cause error) {
	if h.ended != nil {
		return // as Close began, and Do's function had time to return
	}
	h.ended = cause
	if h.cancel != nil {
		h.cancel(cause)
	}
	h.holdEnd()
}

// released notes the answer to a release that began then. If the hold was lost, its end
// was reported already. c.mu is held.
func (c *Client) released(h *Hold, began time.Duration, err error) {
	retaken := errors.Is(err, errRetaken)
	if (err == nil || retaken) && h.state == released {
		h.state = gone
	}
	c.inviteFirst(h.ref.Resource)
	if h.state == lost {
		return
	}
	switch {
	case retaken:
		c.warn("holdfast: released, but still held",
			"resource", h.ref.Resource, "lockID", h.ref.LockID, "error", err)
		err = h.lossBy(err)
	case err != nil:
		c.warn("holdfast: release not confirmed, the hold ends by itself",
			"resource", h.ref.Resource, "lockID", h.ref.LockID, "error", err)
	}
	h.tellReleased(began, err)
}

func (h *Hold) lossBy(cause error) *LostError {
	return &LostError{Resource: h.ref.Resource, LockID: h.ref.LockID, Token: h.ref.Token, Cause: cause}
}

// lose ends a hold that is lost because of cause; nil means that its deadline has
// passed. Later answers change nothing. c.mu is held.
func (c *Client) lose(h *Hold, cause error) {
	if h.state != live {
		return
	}
	if cause == nil {
		cause = h.expiry()
	}
	loss := h.lossBy(cause)
	h.loss = loss
	c.finish(h, lost, loss)
	if h.endless {
		c.cleanForgotten(h)
	}
	c.warn("holdfast: lock lost", "resource", h.ref.Resource, "lockID", h.ref.LockID, "cause", cause)
}
