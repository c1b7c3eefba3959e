package server

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
)

// forceRelease serves POST /v1/force-release. It ends one hold that its hold ID and its
// token name: a request that a proxy repeats finds that hold, or none.
func (s *Server) forceRelease(x *exchange) {
	var body wire.ForceRequest
	if !x.read(&body, smallBody) {
		return
	}
	if err := validForce(body); err != nil {
		x.refuse(wire.KindInvalid, detail(err))
		return
	}
	event := Event{
		Action: "force-release", Resource: body.Resource, Ref: wire.RefOf(body.HoldID), Token: body.Token,
		Reason: body.Reason,
	}
	if !x.caller.May(access.Force, body.Resource) {
		event.Outcome, event.Count = "denied", 1
		x.auditRefused(event)
		x.refuse(wire.KindDenied, x.whyDenied(fmt.Errorf("%w: no right to force a release of %q", errDenied, body.Resource)))
		return
	}
	q, err := x.forced(body)
	if err != nil {
		x.refuseError("list", err)
		return
	}
	event.Outcome = "allowed"
	if !x.mayAct(event) {
		return
	}
	result := driver.ReleaseResult{} // the hold is not there
	var sent time.Time
	if q.LockID != "" {
		var rs []driver.ReleaseResult
		rs, sent = call(x, "release", context.WithoutCancel(x.r.Context()), []driver.ReleaseRequest{q}, s.store.Release, releaseErr)
		if result = rs[0]; result.Err != nil {
			x.auditLost(event, result.Err)
			x.refuseError("release", result.Err)
			return
		}
	}
	if h := s.opts.History; h != nil && result.Found {
		h.Forced(q.HoldRef, sent, x.caller.Name(), body.Reason)
	}
	answer := wire.ReleaseResultOf(wire.Release{Ref: body.Ref}, result)
	event.Outcome = releaseOutcome(body.HoldID, answer)
	_ = x.audit(event)
	x.answer(answer)
}

// mayAct reports whether the audit has taken down what is about to be done.
func (x *exchange) mayAct(e Event) bool {
	if err := x.audit(e); err != nil {
		x.s.opts.Logger.Error("holdfast server: cannot write the audit", "error", err)
		x.refuse(wire.KindUnusable, "the server cannot write its audit, and does nothing by force without it")
		return false
	}
	return true
}

// auditLost tells of what was allowed and got no answer from the store.
func (x *exchange) auditLost(e Event, err error) {
	if !definite(err) {
		e.Outcome = "unknown"
		_ = x.audit(e)
	}
}

func validForce(body wire.ForceRequest) error {
	if err := validName(body.Resource); err != nil {
		return err
	}
	switch {
	case body.HoldID.IsZero() || body.Token == 0:
		return fmt.Errorf("%w: a forced release needs a holdId and its token", driver.ErrInvalid)
	case strings.TrimSpace(body.Reason) == "":
		return fmt.Errorf("%w: a forced release needs a reason", driver.ErrInvalid)
	}
	// What no hold can have is wrong whether there is one or not.
	ref := driver.HoldRef{Resource: body.Resource, LockID: cmp.Or(body.LockID, body.Resource), Token: body.Token}
	if err := ref.Validate(); err != nil {
		return err
	}
	return driver.Details{Comment: body.Reason}.Validate()
}

// forced returns the release of the hold as the store knows it: its lock ID begins with the
// name of its caller. The lock ID is empty if there is nothing to release.
func (x *exchange) forced(body wire.ForceRequest) (driver.ReleaseRequest, error) {
	q := driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: body.Resource, HoldID: body.HoldID, Token: body.Token}}
	ctx, cancel := context.WithDeadline(x.r.Context(), x.deadline())
	defer cancel()
	h, err := x.s.find(ctx, driver.Filter{Resource: q.Resource}, q.HoldID)
	q.LockID = h.LockID
	if body.LockID != "" && q.LockID != "" && q.LockID != body.LockID && x.shownID(q.LockID) != body.LockID {
		return q, fmt.Errorf("%w: the hold has another lockId", driver.ErrInvalid)
	}
	return q, err
}

// find returns a hold, as the store has it, or none: its lock ID is empty then.
func (s *Server) find(ctx context.Context, f driver.Filter, id driver.HoldID) (_ driver.Status, err error) {
	began := time.Now()
	defer func() { s.storeCall(ctx, "list", began, err) }()
	for h, err := range s.store.List(ctx, f) {
		switch {
		case err != nil:
			return driver.Status{}, err
		case h.HoldID == id:
			return h, nil
		}
	}
	return driver.Status{}, ctx.Err() // a store may end a list with its ctx
}

// sweep serves POST /v1/sweep.
func (s *Server) sweep(x *exchange) {
	var body wire.SweepRequest
	if !x.read(&body, smallBody) {
		return
	}
	q := body.Driver()
	if q.Idle < 0 || q.Most < 0 || q.Most > math.MaxInt32 {
		x.refuse(wire.KindInvalid, "idleMs must not be negative but for -1, and most must be from 0 to 2147483647")
		return
	}
	if !x.caller.MayAll(access.Force) {
		x.deny("sweep", "", driver.HoldID{}, fmt.Errorf("%w: no right to sweep, which is that to force on all resources", errDenied))
		return
	}
	if !x.mayAct(Event{Action: "sweep", Outcome: "allowed"}) {
		return
	}
	ctx, cancel := context.WithDeadline(x.r.Context(), x.deadline())
	defer cancel()
	if ctx.Err() != nil {
		x.refuseError("sweep", errNotSent)
		return
	}
	began := time.Now()
	r, err := s.store.Sweep(ctx, q)
	s.storeCall(x.r.Context(), "sweep", began, err)
	if err != nil {
		x.auditLost(Event{Action: "sweep"}, err)
		x.refuseError("sweep", err)
		return
	}
	_ = x.audit(Event{Action: "sweep", Outcome: "swept"})
	x.answer(wire.SweepAnswer{Holds: r.Holds, Records: r.Records, More: r.More})
}
