package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/front"
	"github.com/holdfast-go/holdfast/server/health"
)

// batch is how the items of a renewal or a release are served. I is an item, Q and R what the
// store is asked and answers, and W what the caller is told.
type batch[I, Q, R, W any] struct {
	x   *exchange
	op  string
	ref func(I) wire.Ref
	ask func(I) (Q, error) // checks an item, and returns the request for the store
	// send is the call of the store, and errOf what it says of an item.
	send  func(context.Context, []Q) ([]R, error)
	errOf func(*R) *error
	// done notes what became of an item that was sent. It reports whether that was for nothing.
	done func(item I, q Q, r R, sent time.Time) (wasted bool)
	// told returns what the caller is told of a result.
	told func(I, R, time.Time) W
}

// serve answers the request. ctx is that of the call of the store.
func (b batch[I, Q, R, W]) serve(ctx context.Context) {
	x := b.x
	unseen, _ := x.account.Open(budget.Unseen, 0)
	defer unseen.Close()
	holds := b.read(&unseen)
	if holds == nil {
		return
	}
	results, wasted := make([]W, len(holds)), 0
	var qs []Q
	var of []int // the item of each request
	for i, item := range holds {
		q, err := b.ask(item)
		if err == nil {
			qs, of = append(qs, q), append(of, i)
			continue
		}
		if errors.Is(err, ErrDenied) {
			ref := b.ref(item)
			x.denied.count(Event{Action: b.op, Outcome: "denied", Resource: ref.Resource, Ref: wire.RefOf(ref.HoldID), Reason: detailDenied(err)})
		}
		results[i], wasted = b.toldOf(item, err), wasted+1
	}
	sent := time.Now()
	rs := b.call(ctx, qs, sent)
	for n, i := range of {
		item, r := holds[i], rs[n]
		if b.done(item, qs[n], r, sent) {
			wasted++
		}
		if err := *b.errOf(&r); err != nil {
			x.logError(b.op, err)
			results[i] = b.toldOf(item, err)
			continue
		}
		results[i] = b.told(item, r, sent)
	}
	x.account.Waste(wasted + x.size*wasted/len(results)/bytesOfRequest)
	if x.spent && wasted > len(results)/2 {
		front.Pause(x.r)
	}
	x.auditRefused(x.denied)
	x.auditRefused(x.missed)
	x.answer(wire.BatchAnswer[W]{Results: results})
}

// read returns the items, of which there are some, or nil after a refusal. Package strictjson has
// refused too many. They come out of a reserve of the caller: if there is none, what names no
// hold that is remembered is refused. What is not remembered is claimed until the answer.
func (b batch[I, Q, R, W]) read(unseen *budget.Claim) []I {
	x, most := b.x, int64(wire.MaxBody)
	wait, ok := x.account.Renew()
	if x.spent = !ok; x.spent {
		most = spentBody
	}
	if x.r.ContentLength > most {
		x.tooLarge(most)
		return nil
	}
	var body wire.Batch[I]
	if !x.read(&body, most) {
		return nil
	}
	live := 0
	for _, item := range body.Holds {
		if x.s.live.has(x.account, b.ref(item)) {
			live++
		}
	}
	switch n := len(body.Holds); {
	case n == 0:
		x.refuse(wire.KindInvalid, `the request has no "holds"`)
		return nil
	case x.spent && live == 0:
		x.refuseUntil(wire.KindBusy, errSpent.Error(), wire.MillisUp(wait))
		return nil
	case !x.spent && live < n && !unseen.Grow(int64(n-live)):
		// With what is remembered it is as if there was nothing left.
		if x.spent = live > 0; !x.spent {
			x.busy("too many renewals and releases are under way of holds that this server does not know")
			return nil
		}
	}
	return body.Holds
}

// bytesOfRequest is how many bytes of a batch are as much work to read as a request is.
const bytesOfRequest = 400

// toldOf returns the result of an item that has failed.
func (b batch[I, Q, R, W]) toldOf(item I, err error) W {
	var r R
	*b.errOf(&r) = fitError{err, b.x.why(err)}
	return b.told(item, r, time.Time{})
}

// fitError is an error with a text that is fit for callers.
type fitError struct {
	error
	text string
}

func (e fitError) Error() string { return e.text }

func (e fitError) Unwrap() error { return e.error }

// call sends the requests to the store, in one call, unless there is none or it is too late. It
// returns a result for each, with an error where the store has returned none.
func (b batch[I, Q, R, W]) call(ctx context.Context, qs []Q, sent time.Time) (rs []R) {
	if len(qs) == 0 {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, b.x.deadline())
	defer cancel()
	missing := errNoResult
	if ctx.Err() != nil {
		missing = errNotSent
	} else {
		var err error
		rs, err = b.send(ctx, qs)
		b.x.s.storeCall(b.x.r.Context(), b.op, sent, ofBatch(rs, err, b.errOf))
		if err != nil {
			rs, missing = nil, err
		}
	}
	for len(rs) < len(qs) {
		var r R
		*b.errOf(&r) = missing
		rs = append(rs, r)
	}
	return rs
}

// renew serves POST /v1/renew. A reply that is lost, and a renewal that comes twice or late,
// do no harm: a renewal never moves an end backwards, and finds no hold that was released.
func (s *Server) renew(x *exchange) {
	batch[wire.Renewal, driver.RenewRequest, driver.RenewResult, wire.RenewResult]{
		x: x, op: "renew", ref: func(item wire.Renewal) wire.Ref { return item.Ref },
		ask: x.renewal, send: s.store.Renew, errOf: renewErr, done: x.renewed,
		told: func(item wire.Renewal, r driver.RenewResult, sent time.Time) wire.RenewResult {
			result := wire.RenewResultOf(item, r)
			if r.Err == nil {
				result.SafeForMs = safeFor(x.received, sent, r.Left, item.Driver().TTL)
			}
			return result
		},
	}.serve(x.r.Context())
}

func (x *exchange) renewal(item wire.Renewal) (driver.RenewRequest, error) {
	q := item.Driver()
	q.LockID = x.ownID(q.LockID)
	if q.HoldID.IsZero() {
		return q, fmt.Errorf("%w: a renewal needs a holdId", driver.ErrInvalid)
	}
	return q, x.mayAsk(item.Ref, q, q.TTL)
}

// renewed notes what became of a renewal.
func (x *exchange) renewed(item wire.Renewal, q driver.RenewRequest, r driver.RenewResult, sent time.Time) (wasted bool) {
	s, h := x.s, x.s.opts.History
	switch {
	case errors.Is(r.Err, driver.ErrLost):
		if s.live.has(x.account, item.Ref) { // it should be there: perhaps nothing is
			s.identity.suspect(false)
		}
		s.live.forget(x.account, q.HoldID)
		if h != nil {
			h.Lost(q.HoldRef)
		}
		return true
	case r.Err != nil:
		return !s.live.has(x.account, item.Ref)
	}
	if h != nil {
		h.Renewed(q.HoldRef, sent)
	}
	s.live.note(x.account, q.HoldRef, q.Token, sent, r.Left, q.TTL)
	s.cleaner.Spare(q.HoldRef)
	return false
}

// release serves POST /v1/release. Once it has arrived as a whole, it is sent to the store
// even if the caller hangs up: that was its wish.
func (s *Server) release(x *exchange) {
	batch[wire.Release, driver.ReleaseRequest, driver.ReleaseResult, wire.ReleaseResult]{
		x: x, op: "release", ref: func(item wire.Release) wire.Ref { return item.Ref },
		ask: x.giveBack, send: s.store.Release, errOf: releaseErr, done: x.released,
		told: func(item wire.Release, r driver.ReleaseResult, _ time.Time) wire.ReleaseResult {
			return wire.ReleaseResultOf(item, r)
		},
	}.serve(context.WithoutCancel(x.r.Context()))
}

func (x *exchange) giveBack(item wire.Release) (driver.ReleaseRequest, error) {
	q := item.Driver()
	q.LockID = x.ownID(q.LockID)
	if q.HoldID.IsZero() && q.Place.IsZero() {
		return q, fmt.Errorf("%w: a release needs a holdId or a placeId", driver.ErrInvalid)
	}
	if err := x.mayAsk(item.Ref, q, 0); err != nil {
		return q, err
	}
	// A caller that gives up waiting releases the hold ID. Its place has the same ID, and may
	// be in the store although this server knows nothing of it.
	if !q.HoldID.IsZero() {
		x.s.lines.Forget(x.waiterKeyOf(q.HoldRef))
		if q.Place.IsZero() {
			q.Place = driver.PlaceID(q.HoldID)
		}
	}
	q.Place = x.ownPlace(q.Place)
	return q, nil
}

// released notes what became of a release. That of a place alone is no event: nobody had the
// resource by it.
func (x *exchange) released(item wire.Release, q driver.ReleaseRequest, r driver.ReleaseResult, sent time.Time) (wasted bool) {
	e := Event{Action: "release", Outcome: "unknown", Resource: q.Resource, Ref: wire.RefOf(q.HoldID), Token: q.Token}
	switch {
	case r.Err != nil && definite(r.Err):
		return !x.s.live.has(x.account, item.Ref)
	case q.HoldID.IsZero():
		return true
	case r.Err != nil:
		_ = x.audit(e)
		return !x.s.live.has(x.account, item.Ref)
	}
	x.s.live.forget(x.account, q.HoldID)
	if !r.Found {
		e.Outcome = "not-found"
		x.missed.count(e)
		return true
	}
	if h := x.s.opts.History; h != nil {
		h.Released(q.HoldRef, sent)
	}
	e.Outcome = "released"
	_ = x.audit(e)
	return false
}

// mayAsk checks an item of a batch, and the request for the store that is made of it, with its
// TTL.
func (x *exchange) mayAsk(ref wire.Ref, q interface{ Validate() error }, ttl time.Duration) error {
	switch {
	case x.spent && !x.s.live.has(x.account, ref):
		return errSpent
	case ref.Resource == reserved:
		return errReserved
	}
	if err := q.Validate(); err != nil {
		return err
	}
	return x.mayLock(ref.Resource, "TTL", ttl)
}

// spentBody is how many bytes a batch may have for which there is nothing left: its items are
// most likely refused. One item has room in it. Whoever has more of them makes them smaller.
const spentBody = 16 << 10

// errSpent: the caller has renewed and released too much for nothing.
var errSpent = errors.New("the caller has used up its share, and this server does not know the hold by that token: it was not looked for")

var errNoResult = errors.New("the store left out the result")

func renewErr(r *driver.RenewResult) *error     { return &r.Err }
func releaseErr(r *driver.ReleaseResult) *error { return &r.Err }

// only returns the result of a call for one item, and its error.
func only[R any](rs []R, err error, errOf func(*R) *error) (r R, _ error) {
	switch {
	case err != nil:
		return r, err
	case len(rs) != 1:
		return r, errNoResult
	}
	return rs[0], *errOf(&rs[0])
}

// ofBatch returns what a call with a batch says of the store. One that does not answer, or cannot
// be used, may make it return without an error, but with one for each item.
func ofBatch[R any](rs []R, err error, errOf func(*R) *error) error {
	if err != nil {
		return err
	}
	for _, r := range rs {
		err = *errOf(&r)
		if health.FailureOf(err) == health.None {
			return nil
		}
	}
	return err
}

// count counts the next event of a kind in the first one.
func (e *Event) count(next Event) {
	if e.Count == 0 {
		*e = next
	}
	e.Count++
}
