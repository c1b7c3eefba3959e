package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/cleanup"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// Hold is a lock that was granted. It lives until Unlock or until it is lost; its
// Context ends with it. All methods may be called concurrently.
type Hold struct {
	client *Client
	lease  lease.Lease
	delay  time.Duration // the takeover delay
	strays *strays       // nil: each attempt before it was answered
	traced *tracedHold   // nil: there is no Trace

	acquirer *acquirer // until the hold has started
}

// strays are attempts without an answer.
type strays struct {
	until time.Duration  // when none can arrive any more
	place driver.PlaceID // that they would take again
}

// holdOf returns the Hold of a lease.
func holdOf(l *lease.Lease) *Hold { return l.Data.(*Hold) }

// Client returns the Client that acquired it.
func (h *Hold) Client() *Client { return h.client }

// Resource returns the name of what is locked.
func (h *Hold) Resource() string { return h.lease.Ref.Resource }

// LockID returns the lock ID that holds it.
func (h *Hold) LockID() string { return h.lease.Ref.LockID }

// ID returns the hold ID, which names this acquisition.
func (h *Hold) ID() HoldID { return h.lease.Ref.HoldID }

// Token returns the fencing token, which is higher than that of every earlier hold of
// the resource. Send it with each write under an exclusive lock, and let the receiver
// of the writes refuse lower tokens. It is 0 if the store has no tokens.
func (h *Hold) Token() uint64 { return h.lease.Ref.Token }

// Mode returns Exclusive or Shared.
func (h *Hold) Mode() Mode { return h.lease.Mode }

// Context returns a context that ends when the lock is no longer held. Its
// context.Cause is ErrReleased after Unlock, ErrClosed after Close, or a *LostError,
// before the store can grant the resource to another client. The context has the
// values of the ctx that the lock was acquired with, but does not end with that. It is not
// bound to the hold, as the contexts of Bind and Do are: a Lock of the same resource with it
// waits.
//
// If the process was stopped meanwhile, a timer ends the context a moment after it runs
// again. Context, Bind and Left look at the clock: what they return knows at once.
func (h *Hold) Context() context.Context { return h.lease.Context() }

// Wanted returns a channel that is closed once somebody waits for the resource, in the
// queue of the store (Traits.Queue). A holder may release early then. The Client learns of
// waiters when it renews the hold: within a third of the TTL, or within 30 s if the TTL is
// Forever. With LockOptions.NoKeepAlive it learns of them only by Hold.Renew.
func (h *Hold) Wanted() <-chan struct{} { return h.lease.Wanted() }

// Bind returns a copy of ctx that ends also when the hold does. Call the CancelFunc
// when the work is done. If the hold has ended, so has the copy. A Lock of the same
// resource with that context fails with ErrHeld at once, because it would wait for itself.
func (h *Hold) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.lease.Bind(context.WithValue(ctx, bindingKey{}, &binding{hold: h, outer: bindingOf(ctx)}))
}

// Left returns the time until the hold counts as lost unless it is renewed. It is 0
// if the lock is no longer held, and Forever if the hold has no end.
func (h *Hold) Left() time.Duration { return h.lease.Left() }

// Renew makes the hold live for ttl from now, or Forever, but never shorter than
// without it. Later keep-alives use this ttl; 0 means the present one. Renew fails
// with ErrReleased, with a *LostError, or, if the store does not answer, with an error
// that leaves the hold as it was.
func (h *Hold) Renew(ctx context.Context, ttl time.Duration) error {
	c := h.client
	if ttl != 0 {
		var err error
		if ttl, err = c.validTTL(ttl); err != nil {
			return wrap("renew", h.Resource(), err)
		}
	}
	if err := c.start(ctx); err != nil {
		return wrap("renew", h.Resource(), err)
	}
	defer c.scope.Leave()
	pauses := storecall.Retries()
	for n := 1; ; n++ {
		sent, err := h.lease.Renew(ctx, ttl)
		if err != nil {
			err = wrap("renew", h.Resource(), err)
		}
		if !sent || err == nil || errors.Is(err, ErrLost) || answered(err) || n == maxTries {
			return err
		}
		select {
		case <-time.After(pauses.Next()):
		case <-ctx.Done():
			return wrap("renew", h.Resource(), endedWith(ctx, err))
		case <-h.Context().Done():
		}
	}
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
			h.Resource(), ErrInvalid, after)
	}
	return h.unlock(ctx, after.Truncate(time.Millisecond))
}

func (h *Hold) unlock(ctx context.Context, after time.Duration) error {
	c := h.client
	open := c.scope.Enter()
	if open {
		defer c.scope.Leave()
	}
	e := h.lease.End(ErrReleased, after)
	// After Close only Do releases its hold, which is among what Close waits for.
	open = open || e.InDo && !c.opts.LeaveHolds
	switch {
	case e.State == lease.Gone:
		return nil
	case e.State == lease.Lost:
		if open {
			c.cleanLost(h, e)
		}
		return e.Loss
	case !open:
		return ErrClosed
	}
	var began time.Duration
	if h.traced != nil {
		began = c.clock()
	}
	if e.Repeated {
		c.cleaner.NotBefore(h.lease.Ref, c.clock()+e.Delay) // of an earlier Unlock, which failed
	}
	err := c.cleaner.Release(ctx, driver.ReleaseRequest{HoldRef: h.lease.Ref, After: e.Delay}, e.Deadline)
	c.released(h, began, err)
	c.cleanStrays(h, e.Delay)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, cleanup.ErrRetaken):
		return lossOf(&h.lease, err)
	case e.Endless: // else it would never end
		from := c.clock() + e.Delay
		c.cleaner.Add(cleanup.Orphan{Ref: h.lease.Ref, Endless: true, From: from, Until: from})
	}
	return wrap("unlock", h.Resource(), err)
}

// released notes the answer to a release that began then. If the hold was lost, its end
// was reported already.
func (c *Client) released(h *Hold, began time.Duration, err error) {
	retaken := errors.Is(err, cleanup.ErrRetaken)
	lost := h.lease.Confirm(err == nil || retaken)
	c.lines.Wake(h.Resource())
	switch {
	case lost:
		return
	case retaken:
		c.warn("holdfast: released, but still held", "resource", h.Resource(), "lockID", h.LockID(), "error", err)
		err = lossOf(&h.lease, err)
	case err != nil:
		c.warn("holdfast: release not confirmed, the hold ends by itself",
			"resource", h.Resource(), "lockID", h.LockID(), "error", err)
	}
	h.tellReleased(began, err)
}

// lossOf returns the error of a hold that is lost.
func lossOf(l *lease.Lease, cause error) error {
	return &LostError{Resource: l.Ref.Resource, LockID: l.Ref.LockID, Token: l.Ref.Token, Cause: cause}
}

// holdRenewed is told of each answer to a renewal.
func (c *Client) holdRenewed(l *lease.Lease, sent, now time.Duration, err error) {
	if err != nil && !errors.Is(err, ErrLost) {
		c.warn("holdfast: renewal without an answer, will repeat it",
			"resource", l.Ref.Resource, "lockID", l.Ref.LockID, "error", err)
		err = wrap("renew", l.Ref.Resource, err)
	}
	holdOf(l).tellRenewed(sent, now, err)
}

// holdLost is told of each loss.
func (c *Client) holdLost(l *lease.Lease, cause error) {
	c.warn("holdfast: lock lost", "resource", l.Ref.Resource, "lockID", l.Ref.LockID, "cause", cause)
}

// What a hold may leave in the store is released in the background.

// cleanStrays cleans up the attempts that got no answer before the hold was granted
// to a later one: if one arrives now it is a new acquisition. A release with a delay
// has to run out first, because it has the same hold ID.
func (c *Client) cleanStrays(h *Hold, after time.Duration) {
	if h.strays == nil {
		return
	}
	if from := c.clock() + after; from < h.strays.until {
		ref := h.lease.Ref
		ref.Token = 0
		c.cleaner.Add(cleanup.Orphan{Ref: ref, Attempts: 2, Place: h.strays.place, From: from, Until: h.strays.until})
		if !h.strays.place.IsZero() {
			c.cleaner.TakeOut(h.strays.place)
		}
	}
}

// cleanLost releases a lost hold that the store may still have: for its margin or its
// takeover delay, because a renewal arrives late, or because it has no end. No caller
// waits for it: there may be many such holds, and the store may not answer.
func (c *Client) cleanLost(h *Hold, e lease.Ending) {
	c.cleanStrays(h, e.Delay)
	from := c.clock() + e.Delay
	stray := cleanup.StrayTime(driver.AcquireRequest{TTL: e.TTL, TakeoverDelay: h.delay})
	c.cleaner.Add(cleanup.Orphan{
		Ref: h.lease.Ref, Endless: e.Endless, From: from, Until: from + max(stray, cleanup.Patience),
	})
}

// cleanForgotten releases a lost hold that a renewal without an answer may have left
// without an end, in case nobody calls Unlock. It does not take away the time that the
// hold would have had otherwise.
func (c *Client) cleanForgotten(l *lease.Lease, ttl time.Duration) {
	from := c.clock() + c.marginOf(ttl) + holdOf(l).delay
	c.cleaner.Add(cleanup.Orphan{Ref: l.Ref, Endless: true, Waits: true, From: from, Until: from})
}
