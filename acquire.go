package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/cleanup"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/storecall"
	"github.com/holdfast-go/holdfast/internal/waitline"
)

// maxLate is how many grants in a row may come too late before the acquirer fails.
const maxLate = 3

// maxTries is how often a TryLock or a renewal without an answer is sent.
const maxTries = 3

// acquirer is a call of Lock, RLock, TryLock or TryRLock.
type acquirer struct {
	c       *Client
	q       driver.AcquireRequest
	endless bool // the hold gets a finite TTL first and is then renewed to Forever
	named   bool // the caller chose the lock ID: this Client may have a hold by it
	keep    bool // the Client renews the hold

	warned     bool // that the limits differ
	tried      bool // with the present hold ID
	asked      bool // the store was asked, by this acquirer or one that it queued behind
	waits      bool // it was refused, or queued behind another
	late       int8 // grants in a row that came too late
	waitsSince time.Duration
	span       *span // nil: there is no Trace

	// The attempts with the present hold ID.
	sent    time.Duration  // when the first of them was sent
	unknown int            // how many have no answer and may be applied, now or later
	place   driver.PlaceID // the fair place that they would take again

	heard  time.Duration     // when the last attempt was answered
	first  storecall.Context // a field to save an allocation, like waiter
	waiter waitline.Waiter
}

// newAcquirer checks the arguments. It returns an acquirer even if they are invalid.
func (c *Client) newAcquirer(resource string, mode Mode, o *LockOptions) (*acquirer, error) {
	a := &acquirer{c: c, named: o != nil && o.LockID != "", keep: o == nil || !o.NoKeepAlive}
	err := c.request(&a.q, resource, mode, o)
	if a.endless = a.q.TTL == Forever; a.endless && err == nil {
		// If the answer to the grant got lost, a hold without an end would block the
		// resource forever. So the hold begins with a finite TTL.
		a.q.TTL, err = c.validTTL(DefaultTTL)
	}
	return a, err
}

// errLate means that a grant came after the deadline of its hold. Another attempt may succeed.
var errLate = errors.New("granted too late")

// once makes one attempt. It returns a hold, a *HeldError, errLate, or another error, for
// which answered reports whether it is the store's answer.
//
// The attempt after an unanswered one has the same hold ID: if the first was applied, the
// second gets the same grant. The deadline counts from the first.
func (a *acquirer) once(ctx context.Context, ask waitline.Ask) (*Hold, error) {
	if ctx.Err() != nil {
		return nil, foreign.CtxError(ctx)
	}
	c, now := a.c, ask.At
	otherPlace := !a.place.IsZero() && !ask.Place.IsZero() && ask.Place != a.place
	if a.unknown > 0 && (now >= c.leases.Deadline(a.sent, a.q.TTL) || otherPlace) {
		a.abandon() // a grant under this ID could no longer be used, or its clean-up is about one place
	}
	if a.unknown == 0 {
		if a.tried {
			a.q.HoldID = driver.NewHoldID()
		}
		a.sent, a.tried = now, true
	}
	call := &a.first
	if call.Scope != nil {
		call = new(storecall.Context) // the store may still use the previous one
	}
	call.Parent, call.Scope, call.Timeout = ctx, c.scope, ask.Within
	a.q.Place = ask.Place
	if a.q.Fair && !ask.Place.IsZero() {
		a.place = ask.Place
	}
	a.asked = true
	traced := a.attemptStart(now)
	g, err := c.store.Acquire(call, a.q)
	err = call.End(err)

	a.heard = c.clock()
	traced.end(a.heard-now, g.Token, err)
	switch {
	case err == nil && a.heard < c.leases.Deadline(a.sent, a.q.TTL):
		return a.hold(ctx, g)
	case err == nil:
		a.unknown++
		return nil, a.tooLate(ctx)
	case !answered(err):
		a.unknown++
		return nil, err
	}
	if a.unknown > 0 {
		a.unknown++ // so that a copy of this attempt is not taken for the earlier one
		a.abandon() // the earlier one may still arrive
	}
	if errors.Is(err, ErrHeld) {
		a.late = 0
	}
	return nil, err
}

// hold returns the Hold of a grant. The Client renews it from now on.
func (a *acquirer) hold(ctx context.Context, g driver.Grant) (*Hold, error) {
	c, q := a.c, &a.q
	h := &Hold{client: c, delay: q.TakeoverDelay}
	h.lease = lease.Lease{
		Ref:  driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token},
		Mode: q.Mode, Named: a.named, Keep: a.keep, Ctx: ctx, Data: h,
	}
	if a.unknown > 0 {
		h.strays = &strays{until: a.heard + cleanup.StrayTime(*q), place: a.place}
	}
	ttl := q.TTL
	if a.endless {
		ttl = Forever
	}
	h.acquirer = a
	added := c.leases.Add(&h.lease, a.sent, a.heard, q.TTL, ttl)
	h.acquirer = nil
	if !added {
		a.unknown++
		a.abandon()
		return nil, ErrClosed
	}
	if own := a.ownHold(); own != nil { // nil if it was released or lost already
		c.lines.Reject(q.Resource, q.LockID, heldBySelf(own)) // its waiters would wait for themselves
	}
	c.planSweep.Do(c.startSweeps)
	return h, nil
}

// tooLate releases a late grant. It returns errLate if another attempt may succeed.
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

// abandon starts the clean-up of the present hold ID in the background and makes a new one.
// The channel is closed after the first release.
func (a *acquirer) abandon() <-chan struct{} {
	now := a.c.clock()
	o := cleanup.Orphan{
		Ref:      driver.HoldRef{Resource: a.q.Resource, LockID: a.q.LockID, HoldID: a.q.HoldID},
		Attempts: a.unknown, Place: a.place, From: now, Until: now + cleanup.StrayTime(a.q),
	}
	asked := a.c.cleaner.Add(o)
	a.c.takeOutUnused(a.q.Resource, o.Place)
	a.q.HoldID = driver.NewHoldID()
	a.tried, a.unknown, a.place = false, 0, driver.PlaceID{}
	return asked
}

// giveUp ends an acquirer that was granted nothing. err is the error of the last attempt or
// the reason why the wait ended.
func (a *acquirer) giveUp(err error) error {
	if a.unknown > 0 {
		a.abandon()
	}
	return wrap("lock", a.q.Resource, err)
}

// try makes attempts until one is answered, but at most maxTries.
func (a *acquirer) try(ctx context.Context) (*Hold, error) {
	pauses := storecall.Retries()
	for n := 1; ; n++ {
		h, err := a.once(ctx, waitline.Ask{At: a.c.clock(), Within: storecall.Timeout(a.q.TTL)})
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, errLate):
			continue
		case a.c.scope.Life.Err() == nil && ctx.Err() != nil && !answered(err):
			return nil, a.giveUp(endedWith(ctx, err))
		case answered(err), errors.Is(err, ErrTTLTooShort), ctx.Err() != nil, n == maxTries:
			return nil, a.giveUp(a.c.closedOr(a.tryError(err)))
		}
		select {
		case <-time.After(pauses.Next()):
		case <-a.c.scope.Life.Done():
			return nil, a.giveUp(ErrClosed)
		case <-ctx.Done():
			return nil, a.giveUp(endedWith(ctx, err))
		}
	}
}

// tryError returns the error of a TryLock. The store sets BySelf for any hold of the lock ID;
// callers get it only for a hold of this Client.
func (a *acquirer) tryError(err error) error {
	var held *HeldError
	if !errors.As(err, &held) || !held.BySelf || a.ownHold() != nil {
		return err
	}
	other := *held // a Trace may have held
	other.BySelf = false
	return &other
}

// wait makes attempts, when it is its turn among the waiters of this Client, until the
// resource is granted.
func (a *acquirer) wait(ctx context.Context) (*Hold, error) {
	c, w := a.c, &a.waiter
	w.Resource, w.LockID, w.Data = a.q.Resource, a.q.LockID, a
	w.Kind = waitline.Kind{Mode: a.q.Mode, Limit: a.q.Limit, Fair: a.q.Fair}
	w.Timeout, w.Patience = storecall.Timeout(a.q.TTL), min(max(a.q.TTL, time.Second), DefaultTTL)
	ask := c.lines.Join(w)
	if ask.Within == 0 {
		a.asked = true
		a.waitStart(c.clock())
		if own := a.ownHold(); own != nil {
			w.Leave()
			return nil, a.giveUp(heldBySelf(own))
		}
	}
	h, err := a.askInTurn(ctx, w, ask)
	if err != nil {
		err = a.giveUp(err) // before Leave, which gives up the place: the clean-up must know the attempts
		w.Leave()
	}
	return h, err
}

// askInTurn is the part of wait after the acquirer has joined its line.
func (a *acquirer) askInTurn(ctx context.Context, w *waitline.Waiter, ask waitline.Ask) (_ *Hold, err error) {
	c := a.c
	for ; ; ask.Within = 0 {
		if ask.Within == 0 {
			ask, err = w.Turn(ctx)
		}
		switch {
		case errors.Is(err, waitline.ErrClosed):
			return nil, ErrClosed
		case err != nil && ctx.Err() != nil:
			return nil, a.waitError(foreign.CtxError(ctx))
		case err != nil: // its own lock ID has the resource, or the store is silent; others may get this error too
			return nil, ownError(err)
		}
		h, err := a.once(ctx, ask)
		if err == nil {
			_ = w.Granted()
			return h, nil
		}
		var held *HeldError
		switch {
		case errors.Is(err, errLate):
			continue
		case errors.Is(err, ErrTTLTooShort):
			return nil, err
		case c.scope.Life.Err() != nil && !answered(err):
			return nil, ErrClosed
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			// The caller's ctx interrupted the attempt: this says nothing about the store.
			return nil, a.waitError(foreign.CtxError(ctx))
		case errors.As(err, &held):
			w.Refused(held, held.Ahead, 0)
			a.waitStart(a.heard)
			// Fail only if this Client has the hold of the same lock ID: the caller would
			// wait for itself. A hold of another process, of a killed process or of a late
			// attempt ends like any other hold.
			if own := a.ownHold(); own != nil && held.BySelf {
				return nil, waitline.CopyOf(held)
			} else if own != nil {
				return nil, heldBySelf(own) // granted since the store was asked
			}
			a.warnOfLimit(held)
		case permanent(err):
			return nil, err
		default:
			over := w.Silent(err)
			switch {
			case over != nil && ctx.Err() != nil:
				return nil, endedWith(ctx, over)
			case over != nil:
				return nil, over
			}
			c.warn("holdfast: no answer to an acquire, will repeat it", "resource", a.q.Resource, "error", err)
		}
	}
}

// ownHold returns this Client's live hold of the resource by the acquirer's lock ID, or nil.
func (a *acquirer) ownHold() *lease.Lease {
	if !a.named {
		return nil
	}
	return a.c.leases.NamedHold(a.q.Resource, a.q.LockID)
}

// heldBySelf returns the refusal for a caller that would wait for its own hold.
func heldBySelf(l *lease.Lease) *HeldError {
	return &HeldError{
		Resource: l.Ref.Resource, RetryAfter: driver.Unknown, Position: driver.NoPlace, BySelf: true,
		Holders: []Status{{
			Resource: l.Ref.Resource, LockID: l.Ref.LockID, HoldID: l.Ref.HoldID, Mode: l.Mode,
			Token: l.Ref.Token, Left: l.Left(),
		}},
	}
}

// waitError returns the error of a wait that ended because of cause. It matches ErrHeld only
// if the last answer in the line was a refusal.
func (a *acquirer) waitError(cause error) error {
	_, e, heard := a.waiter.Heard()
	switch {
	case errors.Is(heard, ErrHeld):
		e.Cause = cause
		e.BySelf = false // it may be the answer to another acquirer's request
		if a.q.Place.IsZero() {
			e.Position = driver.NoPlace
		}
		return e
	case heard != nil:
		return fmt.Errorf("%w; the last attempt: %w", cause, heard)
	}
	return cause
}

// warnOfLimit warns once that the holders and this acquirer have different limits: the wait
// may be long or never end.
func (a *acquirer) warnOfLimit(held *HeldError) {
	if held.LimitDiffers && !a.warned {
		a.warned = true
		a.c.warn("holdfast: waiting for shared holds with another limit", "resource", a.q.Resource,
			"limit", a.q.Limit, "error", held)
	}
}

// placeDropped is called when no waiter uses a place any more. It gives the place up and
// cleans up attempts that are still on their way and would take it again.
func (c *Client) placeDropped(d waitline.Dropped) {
	if !d.Taken {
		c.cleaner.GiveUp(driver.HoldRef{Resource: d.Resource, LockID: d.LockID, HoldID: HoldID(d.Place)}, d.Place)
	}
	if d.Fair {
		c.cleaner.TakeOut(d.Place)
	}
}

// takeOutUnused gives up the fair place of attempts that are being cleaned up, unless a waiter
// uses it: then placeDropped will do so.
func (c *Client) takeOutUnused(resource string, place driver.PlaceID) {
	if !place.IsZero() && !c.lines.Uses(resource, place) {
		c.cleaner.TakeOut(place)
	}
}

// watched is called with the result of each subscription.
func (c *Client) watched(resource string, _ time.Time, err error) {
	if err != nil && !errors.Is(err, ErrUnsupported) {
		c.warn("holdfast: cannot watch, polling for now", "resource", resource, "error", err)
	}
}
