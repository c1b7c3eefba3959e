package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/front"
)

// renew serves POST /v1/renew. A reply that is lost, and a renewal that comes twice or late,
// do no harm: a renewal never moves an end backwards, and finds no hold that was released.
func (s *Server) renew(x *exchange) {
	var body wire.RenewRequest
	unseen, ok := x.readBatch(&body, func() int { return len(body.Holds) }, func(i int) wire.Ref { return body.Holds[i].Ref })
	defer unseen.Close()
	if !ok {
		return
	}
	var denied Event
	results := make([]wire.RenewResult, len(body.Holds))
	var qs []driver.RenewRequest
	var of []int // the item of each request
	for i, item := range body.Holds {
		q, err := x.renewal(item)
		if err != nil {
			outcome, why := x.refusedItem(&denied, "renew", item.Ref, err)
			results[i] = wire.RenewResult{HoldID: item.HoldID, Outcome: outcome, Detail: why}
			continue
		}
		qs, of = append(qs, q), append(of, i)
	}
	answers, sent := call(x, "renew", x.r.Context(), qs, s.store.Renew, renewErr)
	h, wasted := s.opts.History, len(results)
	for n, i := range of {
		r := answers[n]
		results[i] = wire.RenewResultOf(body.Holds[i], r)
		if r.Err != nil {
			if errors.Is(r.Err, driver.ErrLost) {
				if s.live.has(x.account, body.Holds[i].Ref) { // it should be there: perhaps nothing is
					s.identity.suspect(true)
				}
				s.live.forget(x.account, qs[n].HoldID)
				if h != nil {
					h.Lost(qs[n].HoldRef)
				}
			}
			x.logError("renew", r.Err)
			results[i].Detail = detail(r.Err)
			continue
		}
		if h != nil {
			h.Renewed(qs[n].HoldRef, sent)
		}
		wasted--
		s.live.note(x.account, qs[n].HoldRef, qs[n].Token, sent, r.Left, qs[n].TTL)
		s.cleaner.Spare(qs[n].HoldRef)
		results[i].SafeForMs = safeFor(x.received, sent, r.Left, qs[n].TTL)
	}
	x.waste(wasted, len(results))
	x.auditRefused(denied)
	x.answer(wire.RenewAnswer{Results: results})
}

func (x *exchange) renewal(item wire.Renewal) (driver.RenewRequest, error) {
	q := item.Driver()
	q.LockID = x.ownID(q.LockID)
	switch {
	case x.spent && !x.s.live.has(x.account, item.Ref):
		return q, errSpent
	case q.HoldID.IsZero():
		return q, fmt.Errorf("%w: a renewal needs a holdId", driver.ErrInvalid)
	case q.Resource == reserved:
		return q, errReserved
	}
	if err := q.Validate(); err != nil {
		return q, err
	}
	if !x.caller.May(access.Lock, q.Resource) {
		return q, fmt.Errorf("%w: no right to lock %q", ErrDenied, q.Resource)
	}
	if most := x.caller.MaxTTL(q.Resource); q.TTL > most {
		return q, fmt.Errorf("%w: the TTL may be %v at most", ErrDenied, most)
	}
	return q, nil
}

// release serves POST /v1/release. Once it has arrived as a whole, it is sent to the store
// even if the caller hangs up: that was its wish.
func (s *Server) release(x *exchange) {
	var body wire.ReleaseRequest
	unseen, ok := x.readBatch(&body, func() int { return len(body.Holds) }, func(i int) wire.Ref { return body.Holds[i].Ref })
	defer unseen.Close()
	if !ok {
		return
	}
	var denied, missed Event
	results := make([]wire.ReleaseResult, len(body.Holds))
	var qs []driver.ReleaseRequest
	var of []int
	for i, item := range body.Holds {
		q, err := x.giveBack(item)
		if err != nil {
			outcome, why := x.refusedItem(&denied, "release", item.Ref, err)
			results[i] = wire.ReleaseResult{HoldID: item.HoldID, PlaceID: item.PlaceID, Outcome: outcome, Detail: why}
			continue
		}
		qs, of = append(qs, q), append(of, i)
	}
	wasted := len(results)
	answers, sent := call(x, "release", context.WithoutCancel(x.r.Context()), qs, s.store.Release, releaseErr)
	for n, i := range of {
		r := answers[n]
		if h := s.opts.History; h != nil && r.Err == nil && r.Found {
			h.Released(qs[n].HoldRef, sent)
		}
		results[i] = wire.ReleaseResultOf(body.Holds[i], r)
		if r.Err != nil {
			x.logError("release", r.Err)
			results[i].Detail = detail(r.Err)
		}
		if r.Err != nil && definite(r.Err) {
			continue
		}
		e := Event{
			Action: "release", Outcome: releaseOutcome(qs[n].HoldID, results[i]), Resource: qs[n].Resource, Ref: wire.RefOf(qs[n].HoldID), Token: qs[n].Token,
		}
		if r.Err == nil {
			s.live.forget(x.account, qs[n].HoldID)
		}
		if e.Outcome == "not-found" {
			counted(&missed, e)
			continue
		}
		if r.Err == nil {
			wasted--
		}
		_ = x.audit(e)
	}
	x.waste(wasted, len(results))
	x.auditRefused(denied)
	x.auditRefused(missed)
	x.answer(wire.ReleaseAnswer{Results: results})
}

// releaseOutcome returns what the audit keeps of a release that the store has answered, or may
// have applied. A place alone is gone in any case.
func releaseOutcome(hold driver.HoldID, r wire.ReleaseResult) string {
	if r.Outcome == wire.Released && !r.Found && !hold.IsZero() {
		return "not-found"
	}
	return string(r.Outcome)
}

func (x *exchange) giveBack(item wire.Release) (driver.ReleaseRequest, error) {
	q := item.Driver()
	q.LockID = x.ownID(q.LockID)
	switch {
	case x.spent && !x.s.live.has(x.account, item.Ref):
		return q, errSpent
	case q.HoldID.IsZero() && q.Place.IsZero():
		return q, fmt.Errorf("%w: a release needs a holdId or a placeId", driver.ErrInvalid)
	case q.Resource == reserved:
		return q, errReserved
	}
	if err := q.Validate(); err != nil {
		return q, err
	}
	if !x.caller.May(access.Lock, q.Resource) {
		return q, fmt.Errorf("%w: no right to lock %q", ErrDenied, q.Resource)
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

// readBatch reads the items of a renewal or a release into body, and checks that there are
// some. Package wire has refused too many. Renewals come out of a reserve of the caller: if
// there is none, what names no hold that is remembered is refused. What is not remembered is
// claimed until the answer.
func (x *exchange) readBatch(body any, items func() int, ref func(int) wire.Ref) (unseen budget.Claim, ok bool) {
	unseen, _ = x.account.Open(budget.Unseen, 0)
	wait, reserved := x.account.Renew()
	most := int64(wire.MaxBody)
	if x.spent = !reserved; x.spent {
		most = spentBody
	}
	if x.r.ContentLength > most {
		x.tooLarge(most)
		return unseen, false
	}
	if !x.read(body, most) {
		return unseen, false
	}
	n, live := items(), 0
	if n == 0 {
		x.refuse(wire.KindInvalid, `the request has no "holds"`)
		return unseen, false
	}
	for i := range n {
		if x.s.live.has(x.account, ref(i)) {
			live++
		}
	}
	switch {
	case x.spent && live == 0:
		x.refuseUntil(wire.KindBusy, errSpent.Error(), wire.MillisUp(wait))
		return unseen, false
	case !x.spent && live < n && !unseen.Grow(int64(n-live)):
		// With what is remembered it is as if there was nothing left.
		if x.spent = live > 0; !x.spent {
			x.busy("too many renewals and releases are under way of holds that this server does not know")
			return unseen, false
		}
	}
	return unseen, true
}

// bytesOfRequest is how many bytes of a batch are as much work to read as a request is.
const bytesOfRequest = 400

// waste charges so many of the items of a batch that were for nothing, and their part of the
// bytes.
func (x *exchange) waste(wasted, of int) {
	x.account.Waste(wasted + x.size*wasted/of/bytesOfRequest)
	if x.spent && wasted > of/2 {
		front.Pause(x.r)
	}
}

// spentBody is how many bytes a batch may have for which there is nothing left: its items are
// most likely refused. One item has room in it. Whoever has more of them makes them smaller.
const spentBody = 16 << 10

// errSpent: the caller has renewed and released too much for nothing.
var errSpent = errors.New("the caller has used up its share, and this server does not know the hold by that token: it was not looked for")

var errNoResult = errors.New("the store left out the result")

func renewErr(r *driver.RenewResult) *error     { return &r.Err }
func releaseErr(r *driver.ReleaseResult) *error { return &r.Err }

// call sends a batch to the store, in one call, unless it is empty or too late. It returns a
// result for each request, with an error where the store has returned none.
func call[Q, R any](
	x *exchange, op string, ctx context.Context, qs []Q, send func(context.Context, []Q) ([]R, error), errOf func(*R) *error,
) (rs []R, sent time.Time) {
	sent = time.Now()
	if len(qs) == 0 {
		return nil, sent
	}
	ctx, cancel := context.WithDeadline(ctx, x.deadline())
	defer cancel()
	missing := errNoResult
	if ctx.Err() != nil {
		missing = errNotSent
	} else {
		var err error
		rs, err = send(ctx, qs)
		x.s.storeCall(x.r.Context(), op, sent, ofBatch(rs, err, errOf))
		if err != nil {
			rs, missing = nil, err
		}
	}
	for len(rs) < len(qs) {
		var r R
		*errOf(&r) = missing
		rs = append(rs, r)
	}
	return rs, sent
}

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

// ofBatch returns what a call with a batch says of the store. One that does not answer may
// make it return without an error, but with one for each item.
func ofBatch[R any](rs []R, err error, errOf func(*R) *error) error {
	if err != nil {
		return err
	}
	for _, r := range rs {
		err = *errOf(&r)
		if err == nil || definite(err) {
			return nil
		}
	}
	return err
}

// refusedItem returns the outcome of an item that was not sent to the store. What was denied is
// counted in an event.
func (x *exchange) refusedItem(denied *Event, action string, ref wire.Ref, err error) (wire.Outcome, string) {
	switch {
	case errors.Is(err, ErrDenied):
		counted(denied, Event{Action: action, Outcome: "denied", Resource: ref.Resource, Ref: wire.RefOf(ref.HoldID), Reason: detailDenied(err)})
		return wire.Denied, x.whyDenied(err)
	case errors.Is(err, errSpent):
		return wire.Unknown, err.Error()
	}
	return wire.Invalid, detail(err)
}

// counted counts an event in the first of its kind.
func counted(first *Event, e Event) {
	if e.Count = first.Count + 1; e.Count == 1 {
		*first = e
	}
	first.Count = e.Count
}
