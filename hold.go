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

// Hold is a granted lock. It lives until Unlock or until it is lost, and its Context ends
// with it. All methods may be called concurrently.
type Hold struct {
	client *Client
	lease  lease.Lease
	delay  time.Duration // the takeover delay
	strays *strays       // nil: all earlier attempts were answered
	traced *tracedHold   // nil: there is no Trace

	acquirer *acquirer // until holdStarted has returned
}

// strays are attempts without an answer that may still reach the store.
type strays struct {
	until time.Duration  // when they no longer can
	place driver.PlaceID // the place that they would take again
}

// holdOf returns the Hold of a lease.
func holdOf(l *lease.Lease) *Hold { return l.Data.(*Hold) }

// Client returns the Client that acquired the hold.
func (h *Hold) Client() *Client { return h.client }

// Resource returns the name of the locked resource.
func (h *Hold) Resource() string { return h.lease.Ref.Resource }

// LockID returns the lock ID of the hold: LockOptions.LockID, or a random one.
func (h *Hold) LockID() string { return h.lease.Ref.LockID }

// ID returns the hold ID, which identifies this acquisition. Treat it as a secret: with it,
// another client can renew and release the hold.
func (h *Hold) ID() HoldID { return h.lease.Ref.HoldID }

// Token returns the fencing token, which is higher than the token of every earlier hold of
// the resource. Send it with each write under an exclusive lock, and let the receiver of the
// writes refuse lower tokens. It is 0 if the store has no tokens.
func (h *Hold) Token() uint64 { return h.lease.Ref.Token }

// Mode returns the mode of the hold, Exclusive or Shared.
func (h *Hold) Mode() Mode { return h.lease.Mode }

// Context returns a context that ends when the lock is no longer held. Its context.Cause is
// ErrReleased after Unlock, ErrClosed after Client.Close, or a *LostError. A lost lock ends
// it before the store can grant the resource to another client.
//
// The context has the values of the ctx that the lock was acquired with, but does not end
// when that ctx does. It is not bound to the hold as the contexts of Bind and Do are: a Lock
// of the same resource with it waits.
//
// When a stopped process continues after the end of the hold, a context that was obtained
// before ends a moment later, by a timer. Context, Bind and Left look at the clock: their
// results are right at once.
func (h *Hold) Context() context.Context { return h.lease.Context() }

// Wanted returns a channel that is closed once a waiter is in the store's queue of the
// resource (Traits.Queue). The holder may then release early. The Client learns of waiters
// when it renews the hold: within a third of the TTL, or within 30 s if the TTL is Forever.
// With LockOptions.NoKeepAlive it learns of them only by Renew.
func (h *Hold) Wanted() <-chan struct{} { return h.lease.Wanted() }

// Bind returns a context derived from ctx that also ends when the hold does. Call the
// CancelFunc when the work is done. If the hold has ended already, so has the context. A
// Lock of the same resource with that context fails at once with ErrHeld, because it would
// wait for its own caller. HoldOf returns the hold of the context.
func (h *Hold) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.lease.Bind(context.WithValue(ctx, bindingKey{}, &binding{hold: h, outer: bindingOf(ctx)}))
}

// Left returns how long the hold still counts as held if it is not renewed: the rest of the
// TTL less the margin. It is 0 if the lock is no longer held, and Forever if the hold has no
// end.
func (h *Hold) Left() time.Duration { return h.lease.Left() }

// Renew extends the hold to ttl from now, or to Forever. It never shortens the hold. A ttl
// of 0 means the present one. Later renewals by the Client use the same ttl.
//
// The error is ErrReleased after Unlock, and a *LostError if the lock is lost. Any other
// error means that the renewal was not confirmed, and the hold stays as it was.
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

// Unlock releases the lock: it ends the hold's context, stops renewing the hold and sends
// the release to the store. It uses only the values of ctx, so it can be deferred and works
// after ctx has ended.
//
// Unlock repeats a release without an answer for up to 5 s, or until the hold expires. An
// error then means that the hold may stay in the store until it expires, and Unlock may be
// called again. A hold without an end is then released in the background, as soon as the
// store answers, while the Client is open.
//
// Unlock returns nil if the lock was released before. If the lock was lost or has expired,
// Unlock returns the *LostError at once, and the Client releases the hold in the background
// if the store may still have it. Unlock also returns a *LostError if another program has
// renewed or retaken the lock with the same lock ID and still holds it. It returns ErrClosed
// if the Client is closed and the store has not confirmed the release.
func (h *Hold) Unlock(ctx context.Context) error { return h.unlock(ctx, 0) }

// UnlockAfter is like Unlock, but the resource stays blocked for the given time from now, or
// until the hold would have expired if that is earlier. If UnlockAfter fails, a later Unlock
// repeats it with the rest of the delay.
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
	// After Close only Do still releases its hold: Close waits for it.
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

// released notes the answer to a release that began at the given time. If the hold was lost,
// its end was reported already.
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

// lossOf returns the error of a lost hold.
func lossOf(l *lease.Lease, cause error) error {
	return &LostError{Resource: l.Ref.Resource, LockID: l.Ref.LockID, Token: l.Ref.Token, Cause: cause}
}

// holdRenewed is called with each result of a renewal.
func (c *Client) holdRenewed(l *lease.Lease, sent, now time.Duration, err error) {
	if err != nil && !errors.Is(err, ErrLost) {
		c.warn("holdfast: renewal without an answer, will repeat it",
			"resource", l.Ref.Resource, "lockID", l.Ref.LockID, "error", err)
		err = wrap("renew", l.Ref.Resource, err)
	}
	holdOf(l).tellRenewed(sent, now, err)
}

// holdLost is called when a hold is lost.
func (c *Client) holdLost(l *lease.Lease, cause error) {
	c.warn("holdfast: lock lost", "resource", l.Ref.Resource, "lockID", l.Ref.LockID, "cause", cause)
}

// cleanStrays cleans up, in the background, the unanswered attempts that preceded the
// granted one: an attempt that arrives after the release is a new acquisition. A delayed
// release has to run out first, because it has the same hold ID.
func (c *Client) cleanStrays(h *Hold, after time.Duration) {
	if h.strays == nil {
		return
	}
	if from := c.clock() + after; from < h.strays.until {
		ref := h.lease.Ref
		ref.Token = 0
		c.cleaner.Add(cleanup.Orphan{Ref: ref, Attempts: 2, Place: h.strays.place, From: from, Until: h.strays.until})
		c.takeOutUnused(ref.Resource, h.strays.place)
	}
}

// cleanLost releases, in the background, a lost hold that the store may still have: for its
// margin or its takeover delay, because a renewal arrives late, or because it has no end. No
// caller waits for it, because there may be many such holds and the store may not answer.
func (c *Client) cleanLost(h *Hold, e lease.Ending) {
	c.cleanStrays(h, e.Delay)
	from := c.clock() + e.Delay
	stray := cleanup.StrayTime(driver.AcquireRequest{TTL: e.TTL, TakeoverDelay: h.delay})
	c.cleaner.Add(cleanup.Orphan{
		Ref: h.lease.Ref, Endless: e.Endless, From: from, Until: from + max(stray, cleanup.Patience),
	})
}

// cleanForgotten releases a lost hold that an unanswered renewal may have left without an
// end, in case nobody calls Unlock. It waits until the hold would have expired otherwise.
func (c *Client) cleanForgotten(l *lease.Lease, ttl time.Duration) {
	from := c.clock() + c.marginOf(ttl) + holdOf(l).delay
	c.cleaner.Add(cleanup.Orphan{Ref: l.Ref, Endless: true, Waits: true, From: from, Until: from})
}
