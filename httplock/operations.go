package httplock

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
	var g wire.Grant
	if err := s.call(ctx, s.calls, message{path: wire.AcquirePath, of: ref}, wire.AcquireRequestOf(q), &g); err != nil {
		return driver.Grant{}, err
	}
	grant := g.Driver()
	noToken := g.Token == 0 && s.Traits().Fencing != driver.FencingNone
	switch {
	case g.Resource != q.Resource || g.HoldID != q.HoldID || g.LockID != q.LockID || g.Mode != q.Mode:
		return driver.Grant{}, s.unexpected("it grants another request")
	case noToken || g.Token > driver.MaxToken || !sound(grant.Left):
		return driver.Grant{}, s.unexpected("a grant without a valid token or time")
	}
	ref.Token = g.Token
	s.own.add(ref)
	return grant, nil
}

// Renew implements driver.Store. More than a thousand renewals, or more than half a
// mebibyte, are sent in several requests, one after the other.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results, qs := make([]driver.RenewResult, len(qs)), slices.Clone(qs)
	fail := func(i int, err error) { results[i] = driver.RenewResult{Left: driver.Unknown, Err: err} }
	b := batch[wire.Renewal, wire.RenewResult]{store: s, over: s.renewals, path: wire.RenewPath}
	b.take = func(i int, r wire.RenewResult, err error) {
		switch {
		case err != nil:
			fail(i, err)
		case r.HoldID != qs[i].HoldID:
			fail(i, s.unexpected("it is about another hold"))
		case r.Outcome == wire.Renewed && (!sound(r.Driver().Left) || r.Waiters < 0):
			fail(i, s.unexpected("a renewal without a valid time"))
		default:
			results[i] = r.Driver()
			switch r.Outcome {
			case wire.Renewed:
				s.own.add(qs[i].HoldRef)
			case wire.Lost:
				s.own.remove(qs[i].HoldRef)
			}
		}
	}
	for i, q := range qs {
		ref, err := s.named(ctx, q.HoldRef)
		switch {
		case err != nil:
			fail(i, err)
		case ref.HoldID.IsZero():
			fail(i, fmt.Errorf("hold of %q by lock ID %q: %w", q.Resource, q.LockID, driver.ErrLost))
		default:
			qs[i].HoldRef = ref
			b.add(i, wire.RenewalOf(qs[i]))
		}
	}
	return results, b.send(ctx, len(qs))
}

// Release implements driver.Store. It splits batches as Renew does. A forced release has
// a request of its own.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	results, qs := make([]driver.ReleaseResult, len(qs)), slices.Clone(qs)
	b := batch[wire.Release, wire.ReleaseResult]{store: s, over: s.calls, path: wire.ReleasePath}
	b.take = func(i int, r wire.ReleaseResult, err error) { results[i] = s.released(qs[i], r, err) }
	for i, q := range qs {
		ref, err := q.HoldRef, error(nil)
		if q.Place.IsZero() {
			ref, err = s.named(ctx, ref)
		}
		q.HoldRef, qs[i].HoldRef = ref, ref
		switch {
		case err != nil:
			results[i].Err = err
		case q.HoldID.IsZero() && q.Place.IsZero(): // the hold does not exist
		case q.Reason != "":
			var r wire.ReleaseResult
			err := s.call(ctx, s.calls, message{path: wire.ForceReleasePath}, wire.ForceRequest{Ref: wire.RefOfHold(ref), Reason: q.Reason}, &r)
			results[i] = s.released(q, r, err)
		default:
			b.add(i, wire.ReleaseOf(q))
		}
	}
	return results, b.send(ctx, len(qs))
}

// released returns the result of the release q. A release cannot be lost: a hold that
// does not exist counts as released.
func (s *Store) released(q driver.ReleaseRequest, r wire.ReleaseResult, err error) driver.ReleaseResult {
	switch {
	case err != nil:
		return driver.ReleaseResult{Err: err}
	case r.HoldID != q.HoldID || r.PlaceID != q.Place:
		return driver.ReleaseResult{Err: s.unexpected("it is about another hold")}
	case r.Outcome == wire.Lost:
		return driver.ReleaseResult{Err: s.unexpected("a release that is lost")}
	case r.Outcome == wire.Released:
		s.own.remove(q.HoldRef)
	}
	return r.Driver()
}

// named returns the ref. If it has no hold ID, named returns the ref of the lock ID's
// present hold, or zero if there is none. The API refuses requests without a hold ID: a
// proxy that sends such a request twice would end the hold of a successor.
func (s *Store) named(ctx context.Context, ref driver.HoldRef) (driver.HoldRef, error) {
	if !ref.HoldID.IsZero() {
		return ref, nil
	}
	if ref.LockID == "" {
		why := fmt.Sprintf("no right to force a release of %q: it shows only a part of the hold", ref.Resource)
		return ref, fmt.Errorf("%s: %w", s.target.name, wire.NewRefusal(wire.KindDenied, why).Err())
	}
	for h, err := range s.List(ctx, driver.Filter{Resource: ref.Resource, LockID: ref.LockID, Expired: true}) {
		if err != nil {
			return ref, err
		}
		other := ref.Token != 0 && h.Token != ref.Token
		if h.Resource == ref.Resource && h.LockID == ref.LockID && !h.HoldID.IsZero() && !other {
			return h.Ref(), nil
		}
	}
	return ref, nil
}

// Sweep implements driver.Store.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	var a wire.SweepAnswer
	if err := s.call(ctx, s.sweeps, message{path: wire.SweepPath}, wire.SweepRequestOf(q), &a); err != nil {
		return driver.SweepResult{}, err
	}
	if a.Holds < 0 || a.Records < 0 {
		return driver.SweepResult{}, s.unexpected("a negative sweep count")
	}
	return driver.SweepResult(a), nil
}
