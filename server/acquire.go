package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/internal/cleanup"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/front"
)

// acquisition is an acquire under way. Every attempt of it has the same hold ID, here and
// at other servers: whichever of them is applied, there is one hold.
type acquisition struct {
	x       *exchange
	q       driver.AcquireRequest // TTL: what is asked for, which may be driver.Forever
	ours    bool                  // the server made the hold ID, and cleans up
	sent    time.Time             // when the last attempt was
	unknown int                   // attempts that were applied, or may be, of which the caller is told nothing
	placed  bool                  // the wait has asked for a place
}

// Why an acquire ends without the store's answer, or in spite of it.
var (
	errHungUp   = errors.New("the caller hung up")
	errDraining = errors.New("the server ends: repeat the request with the same hold ID")
	errReplaced = errors.New("another request with the same hold ID waits instead, or has released it")
	errReleased = errors.New("the hold was released by another request")
)

func detailDenied(err error) string { return err.Error()[len(ErrDenied.Error()+": "):] }

// whyDenied is what the caller is told of ErrDenied: it may not know by which of its names it
// came.
func (x *exchange) whyDenied(err error) string {
	if name := x.caller.Name(); name != "" {
		return "caller " + name + ": " + detailDenied(err)
	}
	return detailDenied(err)
}

// acquire serves POST /v1/acquire.
func (s *Server) acquire(x *exchange) {
	var body wire.AcquireRequest
	if !x.read(&body, smallBody) {
		return
	}
	claim, ok := x.account.Open(budget.Acquires, 1)
	if !ok {
		x.busy("too many acquires are under way or wait at this server")
		return
	}
	defer claim.Close()
	a, err := x.acquisition(body)
	switch {
	case errors.Is(err, ErrDenied):
		x.deny("acquire", body.Resource, body.HoldID, err)
	case err != nil:
		x.refuse(wire.KindInvalid, detail(err))
	case body.WaitMs == 0:
		g, err := a.once(x.deadline())
		a.conclude(g, err, 0)
	case s.waits.Err() != nil:
		x.draining(wire.KindDraining)
	default:
		limit := s.opts.MaxWait
		if body.WaitMs != wire.Forever {
			limit = min(body.WaitMs.Duration(), limit)
		}
		s.opts.Observer.wait(1)
		defer s.opts.Observer.wait(-1)
		g, err := a.wait(limit)
		a.conclude(g, err, limit)
	}
}

// acquisition checks the request, and returns what it asks for. The error is
// driver.ErrInvalid or ErrDenied.
func (x *exchange) acquisition(body wire.AcquireRequest) (*acquisition, error) {
	a := &acquisition{x: x, ours: body.HoldID.IsZero()}
	switch {
	case a.ours && body.TTLMs == wire.Forever:
		return nil, fmt.Errorf("%w: a hold without an end needs a holdId of the caller", driver.ErrInvalid)
	case body.WaitMs < wire.Forever:
		return nil, fmt.Errorf("%w: waitMs is negative", driver.ErrInvalid)
	case body.WaitMs != 0 && !body.PlaceID.IsZero():
		return nil, fmt.Errorf("%w: a request with waitMs has a place of its own, and no placeId", driver.ErrInvalid)
	case body.Resource == reserved:
		return nil, errReserved
	}
	if a.ours {
		body.HoldID = driver.NewHoldID()
	}
	a.q = body.Driver()
	a.q.LockID, a.q.Details.Owner, a.q.Place = x.ownID(a.q.LockID), x.owner(a.q.Details.Owner), x.ownPlace(a.q.Place)
	if err := a.q.Validate(); err != nil {
		return nil, err
	}
	if err := a.allowed(); err != nil {
		return nil, err
	}
	x.s.cleaner.Forget(a.ref())
	return a, nil
}

// allowed returns ErrDenied unless the caller has the right to what it asks for.
func (a *acquisition) allowed() error {
	// A takeover delay blocks others as long as a hold does.
	return cmp.Or(a.x.mayLock(a.q.Resource, "TTL", a.q.TTL), a.x.mayLock(a.q.Resource, "takeover delay", a.q.TakeoverDelay))
}

// mayLock returns ErrDenied unless the caller may lock the resource for so long.
func (x *exchange) mayLock(resource, what string, d time.Duration) error {
	if !x.caller.May(access.Lock, resource) {
		return fmt.Errorf("%w: no right to lock %q", ErrDenied, resource)
	}
	if most := x.caller.MaxTTL(resource); d > most {
		return fmt.Errorf("%w: the %s may be %v at most", ErrDenied, what, most)
	}
	return nil
}

func (a *acquisition) ref() driver.HoldRef {
	return driver.HoldRef{Resource: a.q.Resource, LockID: a.q.LockID, HoldID: a.q.HoldID}
}

// ownPlace returns the ID of the place that the acquisition has in the store while it waits.
func (a *acquisition) ownPlace() driver.PlaceID { return a.x.ownPlace(driver.PlaceID(a.q.HoldID)) }

// firstLease is the TTL with which a hold without an end is acquired. If the answer gets
// lost and nobody asks again, the hold ends by it.
const firstLease = 30 * time.Second

// once makes one attempt, which is over by then. Its error is errNotSent, errNotReady, a named
// error of package driver, which is definite, or any other: then it counts in a.unknown.
//
// A reply that is lost, or an attempt that arrives late, leaves a hold with this hold ID.
// The next attempt finds it, here or at another server; otherwise it ends by its TTL, or by
// the cleaner if the hold ID is the server's.
func (a *acquisition) once(by time.Time) (driver.Grant, error) {
	s, q := a.x.s, a.q
	ctx, cancel := context.WithDeadline(a.x.r.Context(), by)
	defer cancel()
	if !s.attempts.enter(ctx, a.x.account) {
		return driver.Grant{}, errNotSent
	}
	defer s.attempts.leave()
	if !s.identity.ready() {
		return driver.Grant{}, errNotReady
	}
	a.sent = time.Now()
	if ctx.Err() != nil || !a.sent.Before(by) {
		return driver.Grant{}, errNotSent
	}
	if q.TTL == driver.Forever {
		q.TTL = firstLease
	}
	g, err := s.store.Acquire(ctx, q)
	s.storeCall(a.x.r.Context(), "acquire", a.sent, err)
	if err == nil && !s.identity.settle(ctx) {
		a.unknown++
		return driver.Grant{}, errNotReady
	}
	if err == nil && a.q.TTL == driver.Forever && g.Left != driver.Forever {
		g.Left, err = a.makeEndless(ctx, g.Token)
	}
	if err != nil && !definite(err) {
		a.unknown++
		a.x.logError("acquire", err)
	}
	return g, err
}

// makeEndless renews the hold that was just granted to one without an end. Whatever becomes
// of that, the caller may ask again with the same hold ID. If it may not, the hold ends by
// its first TTL.
func (a *acquisition) makeEndless(ctx context.Context, token uint64) (time.Duration, error) {
	err := a.allowed()
	if err == nil {
		var left time.Duration
		ref, sent := a.ref(), time.Now()
		ref.Token = token
		left, err = a.x.s.makeEndless(ctx, ref)
		a.x.s.storeCall(a.x.r.Context(), "renew", sent, err)
		if err == nil {
			return left, nil
		}
	}
	return driver.Unknown, fmt.Errorf("granted, but not without an end: %v", err) // unknown, whatever it is
}

// conclude answers what the acquire came to. waited is how long it was ready to wait.
//
// If the server made the hold ID, nobody else can release what an attempt without an answer
// may have left. If the caller made it, only the caller does.
func (a *acquisition) conclude(g driver.Grant, err error, waited time.Duration) {
	x := a.x
	if err == nil {
		if err = a.undeliverable(); err == nil {
			a.concludeGrant(g)
			return
		}
		a.unknown = max(a.unknown, 1)
	}
	switch {
	case a.ours, errors.Is(err, errReleased):
		a.cleanUp()
	case errors.Is(err, ErrDenied):
		// What attempts got, or still get, is left to its TTL: a repeat may have been granted
		// the same hold, and answered, here or at another server, which has not read the
		// rights yet.
		a.giveUpPlace()
	}
	mayBeApplied := a.unknown > 0 && !a.ours // then the answer is not definite
	var held *driver.HeldError
	switch {
	case errors.Is(err, ErrDenied):
		x.auditDenied("acquire", a.q.Resource, a.q.HoldID, err)
		if !mayBeApplied {
			x.refuse(wire.KindDenied, x.whyDenied(err))
			return
		}
		x.refuse(wire.KindUnknown, x.whyDenied(err)+"; an attempt was applied, or may still be")
	case errors.Is(err, errDraining) && mayBeApplied:
		x.draining(wire.KindUnknown)
	case errors.Is(err, errDraining):
		x.draining(wire.KindDraining)
	case errors.Is(err, errNotReady):
		x.refuseError("acquire", err)
	case mayBeApplied && definite(err):
		// The last attempt was not applied, but an earlier one may be.
		x.refuse(wire.KindUnknown, "the store did not answer an earlier attempt, which may still be applied")
	case errors.As(err, &held):
		r := x.heldRefusal(held, a.q.LockID)
		r.WaitMs = wire.MillisOf(waited)
		if !a.ours {
			r.HoldID = a.q.HoldID
		}
		x.sendRefusal(r)
	case errors.Is(err, errNotSent), !definite(err): // once has logged it
		x.refuse(wire.KindUnknown, detail(err))
	default:
		x.refuseError("acquire", err)
	}
	if a.unknown > 0 { // granted, or may be, or was for a moment
		_ = x.audit(Event{Action: "acquire", Outcome: "unknown", Resource: a.q.Resource, Ref: wire.RefOf(a.q.HoldID)})
	}
}

// undeliverable returns why nobody may or can have the grant any more.
func (a *acquisition) undeliverable() error {
	if err := a.allowed(); err != nil { // the right was taken away
		return err
	}
	if a.ours && a.x.r.Context().Err() != nil {
		// Nobody else knows the hold ID. Once the first byte of the answer is written it is
		// the caller's, whether it arrives or not: the hold then ends by its TTL.
		return errHungUp
	}
	return nil
}

func (a *acquisition) concludeGrant(g driver.Grant) {
	x := a.x
	answer := wire.GrantOf(a.q, g)
	answer.LockID = x.shownID(a.q.LockID)
	answer.SafeForMs = safeFor(x.received, a.sent, g.Left, a.q.TTL)
	if h := x.s.opts.History; h != nil {
		h.Granted(driver.Status{
			Resource: a.q.Resource, HoldID: a.q.HoldID, Mode: a.q.Mode, Limit: a.q.Limit, Token: g.Token, Details: a.q.Details,
		}, front.Sender(x.caller, front.AddressOf(x.r)))
	}
	x.s.live.note(x.account, a.ref(), g.Token, a.sent, g.Left, a.q.TTL)
	_ = x.audit(Event{Action: "acquire", Outcome: "granted", Resource: a.q.Resource, Ref: wire.RefOf(a.q.HoldID), Token: g.Token})
	x.answer(answer)
}

// safeFor returns for how long the caller may act as holder from when it sent its request:
// nil if the store did not tell.
//
// The hold ends at the store no earlier than left after the deciding attempt was sent. The
// caller sent its request no later than it was received. So, counted from then, the hold has
// the time until that attempt was sent, and what was left, less a margin for clocks that do
// not run alike. A machine that slept in between makes the first part too short: the caller
// then stops too early. It never stops too late.
func safeFor(received, sent time.Time, left, ttl time.Duration) *wire.Millis {
	switch left {
	case driver.Unknown:
		return nil
	case driver.Forever:
		return new(wire.Forever)
	}
	// A hold may have more left than was asked for: a renewal never shortens it.
	margin := left
	if ttl != driver.Forever {
		margin = max(ttl, left)
	}
	return new(wire.MillisOf(sent.Sub(received) + left - driver.DefaultMargin(margin)))
}

// cleanUp releases in the background what the acquire may have left. An attempt that had no
// answer may arrive after the release, and take its place again.
func (a *acquisition) cleanUp() {
	if a.unknown == 0 {
		a.giveUpPlace()
		return
	}
	c, now := a.x.s.cleaner, a.x.s.scope.Clock()
	o := cleanup.Orphan{
		Ref: a.ref(), Attempts: a.unknown, Endless: a.q.TTL == driver.Forever, From: now, Until: now + cleanup.StrayTime(a.q),
	}
	if a.placed {
		o.Place = a.ownPlace()
	}
	c.Add(o)
	if a.placed {
		c.TakeOut(o.Place)
	}
}

// giveUpPlace gives up the place in the background, and no hold.
func (a *acquisition) giveUpPlace() {
	if a.placed {
		a.x.s.cleaner.GiveUp(a.ref(), a.ownPlace())
	}
}
