package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
)

// acquire serves POST /v1/acquire.
func (s *Server) acquire(x *exchange) {
	var body wire.AcquireRequest
	if !x.read(&body) {
		return
	}
	a, err := x.acquisition(body)
	switch {
	case isDenied(err):
		x.deny("acquire", body.Resource, body.HoldID, err)
	case err != nil:
		x.refuse(wire.KindInvalid, detail(err))
	case !s.identity.ready():
		x.refuse(wire.KindUnknown, "the server is not ready: see its log")
	case body.WaitMs == 0:
		g, err := a.once(x.deadline())
		a.conclude(g, err, 0)
		a.auditUnknown()
	default:
		a.wait(min(waitOf(body.WaitMs), s.opts.MaxWait))
		a.auditUnknown()
	}
}

var errDenied = errors.New("denied")

func isDenied(err error) bool { return errors.Is(err, errDenied) }

func detailDenied(err error) string { return err.Error()[len(errDenied.Error()+": "):] }

// whyDenied is what the caller is told of errDenied: it may not know by which of its names it
// came.
func (x *exchange) whyDenied(err error) string {
	if name := x.caller.Name(); name != "" {
		return "caller " + name + ": " + detailDenied(err)
	}
	return detailDenied(err)
}

// waitOf returns how long the caller wants to wait.
func waitOf(ms wire.Millis) time.Duration {
	if ms == wire.Forever {
		return driver.MaxTTL
	}
	return ms.Duration()
}

// acquisition checks the request, and returns what it asks for. The error is
// driver.ErrInvalid or errDenied.
func (x *exchange) acquisition(body wire.AcquireRequest) (*acquisition, error) {
	a := &acquisition{x: x, ours: body.HoldID.IsZero()}
	endless := body.TTLMs == wire.Forever
	switch {
	case a.ours && endless:
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
	x.s.cleaner.forget(a.waiterKey())
	return a, nil
}

// allowed returns errDenied unless the caller has the right to what it asks for.
func (a *acquisition) allowed() error {
	c, q := a.x.caller, &a.q
	if !c.May(access.Lock, q.Resource) {
		return fmt.Errorf("%w: no right to lock %q", errDenied, q.Resource)
	}
	switch most := c.MaxTTL(q.Resource); {
	case q.TTL > most:
		return fmt.Errorf("%w: the TTL may be %v at most", errDenied, most)
	case q.TakeoverDelay > most: // it blocks others as long as a hold does
		return fmt.Errorf("%w: the takeover delay may be %v at most", errDenied, most)
	}
	return nil
}

// conclude answers what the acquire came to. waited is how long it was ready to wait.
//
// If the server made the hold ID, nobody else can release what an attempt without an answer
// may have left. If the caller made it, only the caller does.
func (a *acquisition) conclude(g decided, err error, waited time.Duration) {
	x := a.x
	if err == nil {
		a.concludeGrant(g)
		return
	}
	if a.ours {
		a.cleanUp()
	}
	var held *driver.HeldError
	switch {
	case errors.As(err, &held) && (a.unknown == 0 || a.ours):
		r := x.heldRefusal(held, a.q.LockID)
		r.WaitMs = wire.MillisOf(waited)
		if !a.ours {
			r.HoldID = a.q.HoldID
		}
		x.sendRefusal(r)
	case a.unknown > 0 && !a.ours && definite(err):
		// The last attempt was not applied, but an earlier one may be.
		x.refuse(wire.KindUnknown, "the store did not answer an earlier attempt, which may still be applied")
	case errors.Is(err, errNotSent), !definite(err): // once has logged it
		x.refuse(wire.KindUnknown, detail(err))
	default:
		x.refuseError("acquire", err)
	}
}

// concludeGrant answers a grant, unless nobody may or can have it any more.
func (a *acquisition) concludeGrant(g decided) {
	x := a.x
	if err := a.allowed(); err != nil { // the right was taken away
		a.unknown = max(a.unknown, 1)
		a.withdraw(err)
		return
	}
	if a.ours && x.r.Context().Err() != nil {
		// Nobody else knows the hold ID. Once the first byte of the answer is written it is
		// the caller's, whether it arrives or not: the hold then ends by its TTL.
		a.unknown = max(a.unknown, 1)
		a.cleanUp()
		x.refuse(wire.KindUnknown, "the caller hung up")
		return
	}
	answer := wire.GrantOf(a.q, g.Grant)
	answer.LockID = x.shownID(a.q.LockID)
	answer.SafeForMs = safeFor(x.received, g.sent, g.Left, a.q.TTL)
	a.audited = true
	a.noteGrant(g.Grant)
	_ = x.audit(Event{Action: "acquire", Outcome: "granted", Resource: a.q.Resource, Ref: wire.RefOf(a.q.HoldID), Token: g.Token})
	x.answer(answer)
}

// auditUnknown tells of an acquire that may be granted, or was for a moment, although its
// caller was not told so.
func (a *acquisition) auditUnknown() {
	if a.unknown > 0 && !a.audited {
		_ = a.x.audit(Event{Action: "acquire", Outcome: "unknown", Resource: a.q.Resource, Ref: wire.RefOf(a.q.HoldID)})
	}
}

// withdraw ends the acquire of a caller that no longer may. What attempts got, or still get,
// under the caller's hold ID is left to its TTL: a repeat may have been granted the same
// hold, and answered, here or at another server, which has not read the rights yet.
func (a *acquisition) withdraw(err error) {
	if a.ours {
		a.cleanUp()
	} else {
		a.giveUpPlace()
	}
	a.x.auditDenied("acquire", a.q.Resource, a.q.HoldID, err)
	if a.unknown > 0 && !a.ours { // then the answer is not definite
		a.x.refuse(wire.KindUnknown, a.x.whyDenied(err)+"; an attempt was applied, or may still be")
		return
	}
	a.audited = true
	a.x.refuse(wire.KindDenied, a.x.whyDenied(err))
}
