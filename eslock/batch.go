package eslock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Renew implements driver.Store. Each renewal has its own answer, whatever became
// of the others.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := s.ready(ctx); err != nil || len(qs) == 0 {
		return nil, err
	}
	asks := make([]ask, len(qs))
	for i, q := range qs {
		ref := refOf(q.HoldRef)
		asks[i] = ask{ref.document, renewParams{refParams: ref, TTL: millis(q.TTL), Exact: q.Exact}}
	}
	results := make([]driver.RenewResult, len(qs))
	for i, o := range s.apply(ctx, renew, asks) {
		results[i] = s.renewed(o, qs[i])
	}
	return results, nil
}

// renewed is what an answer says of a renewal.
func (s *Store) renewed(o outcome, q driver.RenewRequest) driver.RenewResult {
	switch {
	case o.err != nil:
		return driver.RenewResult{Left: driver.Unknown, Err: o.err}
	case o.did == updated:
		return driver.RenewResult{Left: o.left()}
	}
	_, r := model.Renew(o.record, o.now, q)
	if r.Err == nil {
		r.Left, r.Err = driver.Unknown, s.wrap(fmt.Errorf("the server did not renew the hold of %q, which is in the document that it tells of", q.Resource))
	}
	return r
}

// Release implements driver.Store. Each release has its own answer, whatever
// became of the others.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := s.ready(ctx); err != nil || len(qs) == 0 {
		return nil, err
	}
	asks := make([]ask, len(qs))
	for i, q := range qs {
		ref := refOf(q.HoldRef)
		asks[i] = ask{ref.document, releaseParams{refParams: ref, After: q.After.Milliseconds()}}
	}
	results := make([]driver.ReleaseResult, len(qs))
	for i, o := range s.apply(ctx, release, asks) {
		results[i] = s.released(o, qs[i])
	}
	return results, nil
}

// released is what an answer says of a release.
func (s *Store) released(o outcome, q driver.ReleaseRequest) driver.ReleaseResult {
	switch {
	case o.err != nil:
		return driver.ReleaseResult{Err: o.err}
	case o.did == updated:
		return driver.ReleaseResult{Found: o.found}
	}
	if _, there := model.Release(o.record, o.now, q); there {
		return driver.ReleaseResult{Err: s.wrap(fmt.Errorf("the server did not release %q", q.Resource))}
	}
	// A program that knows no hold IDs may have made the hold its own.
	r := driver.ReleaseResult{}
	for _, h := range model.Statuses(o.record, o.now, driver.Filter{LockID: q.LockID}) {
		r.Remains = r.Remains || h.HoldID.IsZero() && h.Live()
	}
	return r
}
