package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/history"
)

// Forcer ends holds by force, for the API and for pages. Its method may be called concurrently.
type Forcer struct {
	Store driver.Store
	// Audit and History are those of Options, and may be nil.
	Audit   func(Event) error
	History *history.Log

	// StoreCall is told of each call of the store, if it is not nil, as Observer.StoreCall is.
	StoreCall func(ctx context.Context, op string, took time.Duration, err error)
}

// Force names a hold that is to end, and says why. Its ref and its token name one hold: an old
// page, or a request that a proxy repeats, finds that hold or none, and not its successor.
type Force struct {
	Resource string
	Ref      string // wire.RefOf the hold ID
	Token    uint64
	Reason   string

	lockIDs []string // if there are any, the hold has one of them
}

// Errors of Forcer.Release. After ErrForceUnknown the hold may be released, now or later.
// After any other error nothing was done.
var (
	ErrDenied       = wire.ErrDenied
	ErrForceUnknown = errors.New("the hold may be released, now or later")
	ErrNoAudit      = errors.New("the server cannot write its audit, and does nothing by force without it")
	ErrBusy         = errors.New("the caller has looked at too much: wait a moment")
)

// Release ends the hold, if the caller of the request may force its resource. Before, it tells
// the audit, and afterwards the audit and the history. Found is false if there is no such hold
// any more. The error may be one of those above, driver.ErrInvalid, or one of the store. ctx
// bounds it.
func (f *Forcer) Release(ctx context.Context, r *http.Request, c access.Caller, account budget.Account, q Force) (driver.ReleaseResult, error) {
	var nothing driver.ReleaseResult
	if err := q.validate(); err != nil {
		return nothing, err
	}
	tell := func(outcome string) error {
		e := Event{
			Request: r, Caller: c.Name(), Action: "force-release", Outcome: outcome,
			Resource: q.Resource, Ref: q.Ref, Token: q.Token, Reason: q.Reason,
		}
		switch outcome {
		case "denied", "not-found":
			if e.Count = 1; !e.Charge(account) {
				return nil
			}
		}
		if f.Audit == nil {
			return nil
		}
		return f.Audit(e)
	}
	if !c.May(access.Force, q.Resource) {
		_ = tell("denied")
		return nothing, fmt.Errorf("%w: no right to force a release of %q", ErrDenied, q.Resource)
	}
	h, err := f.lookFor(ctx, account, q)
	switch {
	case err != nil:
		return nothing, err
	case h.LockID == "":
		_ = tell("not-found")
		return nothing, nil
	case len(q.lockIDs) > 0 && !slices.Contains(q.lockIDs, h.LockID):
		return nothing, fmt.Errorf("%w: the hold has another lockId", driver.ErrInvalid)
	}
	if err := tell("allowed"); err != nil {
		return nothing, fmt.Errorf("%w: %w", ErrNoAudit, err)
	}
	sent := time.Now()
	rs, err := f.Store.Release(ctx, []driver.ReleaseRequest{{HoldRef: h.Ref(), Reason: q.Reason}})
	released, err := only(rs, err, releaseErr)
	f.noteCall(r.Context(), "release", sent, err)
	switch {
	case err != nil && definite(err):
		return nothing, err
	case err != nil:
		_ = tell("unknown")
		return nothing, fmt.Errorf("%w: %w", ErrForceUnknown, err)
	case !released.Found:
		_ = tell("not-found")
		return nothing, nil
	}
	if f.History != nil {
		f.History.Forced(h.Ref(), sent, c.Name(), q.Reason)
	}
	_ = tell("released")
	return released, nil
}

func (q *Force) validate() error {
	if err := validName(q.Resource); err != nil {
		return err
	}
	switch {
	case q.Ref == "" || q.Token == 0:
		return fmt.Errorf("%w: a forced release needs a hold and its token", driver.ErrInvalid)
	case strings.TrimSpace(q.Reason) == "":
		return fmt.Errorf("%w: a forced release needs a reason", driver.ErrInvalid)
	}
	return driver.ValidReason(q.Reason)
}

// lookFor returns the hold that is named, or none. It is charged as the list of its resource that
// it is.
func (f *Forcer) lookFor(ctx context.Context, account budget.Account, q Force) (driver.Status, error) {
	claim, ok := account.Open(budget.Lists, 1)
	defer claim.Close()
	if ok {
		_, ok = account.Spend(budget.Reads, rowOfWork)
	}
	if !ok {
		return driver.Status{}, ErrBusy
	}
	rows := 0
	defer func() { account.Correct(budget.Reads, float64(rows*rowOfWork)) }()
	return f.find(ctx, driver.Filter{Resource: q.Resource}, func(h driver.Status) bool {
		rows++
		return h.Token == q.Token && wire.RefOf(h.HoldID) == q.Ref
	})
}

// find returns the first hold that is meant, or none: its lock ID is empty then.
func (f *Forcer) find(ctx context.Context, among driver.Filter, is func(driver.Status) bool) (_ driver.Status, err error) {
	began := time.Now()
	defer func() { f.noteCall(ctx, "list", began, err) }()
	for h, err := range f.Store.List(ctx, among) {
		switch {
		case err != nil:
			return driver.Status{}, err
		case is(h):
			return h, nil
		}
	}
	return driver.Status{}, ctx.Err() // a store may end a list with its ctx
}

func (f *Forcer) noteCall(ctx context.Context, op string, began time.Time, err error) {
	if f.StoreCall != nil {
		f.StoreCall(ctx, op, time.Since(began), err)
	}
}

// forcer returns what ends holds by force, and finds them.
func (s *Server) forcer() *Forcer { return &Forcer{s.store, s.opts.Audit, s.opts.History, s.called} }

// forceRelease serves POST /v1/force-release.
func (s *Server) forceRelease(x *exchange) {
	var body wire.ForceRequest
	if !x.read(&body, smallBody) {
		return
	}
	q := Force{Resource: body.Resource, Ref: wire.RefOf(body.HoldID), Token: body.Token, Reason: body.Reason}
	if body.LockID != "" { // who forces may name the lock IDs of others as they are in the store
		q.lockIDs = []string{body.LockID, x.ownID(body.LockID)}
	}
	// What no hold can have is wrong whether there is one or not.
	ref := driver.HoldRef{Resource: body.Resource, LockID: cmp.Or(body.LockID, body.Resource), Token: body.Token}
	if err := ref.Validate(); err != nil {
		x.refuse(wire.KindInvalid, detail(err))
		return
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(x.r.Context()), x.deadline())
	defer cancel()
	r, err := s.forcer().Release(ctx, x.r, x.caller, x.account, q)
	switch {
	case errors.Is(err, ErrBusy):
		x.busy(err.Error())
	case errors.Is(err, ErrNoAudit):
		x.refuseUnaudited(err)
	case err != nil:
		x.refuseError("release", err)
	default:
		x.answer(wire.ReleaseResultOf(wire.Release{Ref: body.Ref}, r))
	}
}

// refuseUnaudited refuses what is done only if the audit takes it down.
func (x *exchange) refuseUnaudited(err error) {
	x.s.opts.Logger.Error("holdfast server: cannot write the audit", "error", err)
	x.refuse(wire.KindUnusable, ErrNoAudit.Error())
}

// sweep serves POST /v1/sweep.
func (s *Server) sweep(x *exchange) {
	var body wire.SweepRequest
	if !x.read(&body, smallBody) {
		return
	}
	q := body.Driver()
	if q.Idle <= 0 || q.Most < 0 || q.Most > math.MaxInt32 { // with 0 tokens could begin again
		x.refuse(wire.KindInvalid, "idleMs must be 1 at least, or -1, and most must be from 0 to 2147483647")
		return
	}
	if !x.caller.MayAll(access.Force) {
		x.deny("sweep", "", driver.HoldID{}, fmt.Errorf("%w: no right to sweep, which is that to force on all resources", ErrDenied))
		return
	}
	if err := x.audit(Event{Action: "sweep", Outcome: "allowed"}); err != nil {
		x.refuseUnaudited(err)
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
		if !definite(err) {
			_ = x.audit(Event{Action: "sweep", Outcome: "unknown"})
		}
		x.refuseError("sweep", err)
		return
	}
	_ = x.audit(Event{Action: "sweep", Outcome: "swept"})
	x.answer(wire.SweepAnswer{Holds: r.Holds, Records: r.Records, More: r.More})
}
