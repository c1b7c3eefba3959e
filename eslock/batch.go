package eslock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Renew implements driver.Store. Each renewal has an answer of its own, independent of
// the others.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := s.ready(ctx); err != nil || len(qs) == 0 {
		return nil, err
	}
	asks := make([]ask, len(qs))
	for i, q := range qs {
		ref := refOf(q.HoldRef)
		ref.TTL = millis(q.TTL)
		asks[i] = ask{document: documentOf(q.Resource), ref: &ref}
	}
	results := make([]driver.RenewResult, len(qs))
	for i, o := range s.apply(ctx, renew, asks) {
		switch results[i] = (driver.RenewResult{Left: driver.Unknown, Err: o.err}); {
		case o.found:
			results[i] = driver.RenewResult{Left: o.left(), Waiters: o.waiters}
		case o.err == nil:
			_, r := model.Renew(o.record, o.now, qs[i])
			if r.Err == nil { // an answer to another request has this hold
				r.Err = s.wrap(fmt.Errorf("the server did not renew the hold of %q, which is in the document that it returned", qs[i].Resource))
			}
			results[i].Err = r.Err
		}
	}
	return results, nil
}

// Release implements driver.Store. Each release has an answer of its own, independent of
// the others. A release of whatever hold a lock ID has first looks for the hold, and then
// names it: clients and proxies may send any request twice, and the second must not
// release a successor.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := s.ready(ctx); err != nil || len(qs) == 0 {
		return nil, err
	}
	results := make([]driver.ReleaseResult, len(qs))
	asks, open := make([]ask, 0, len(qs)), make([]int, 0, len(qs))
	for i, q := range qs {
		ref := refOf(q.HoldRef)
		ref.After, ref.Place = q.After.Milliseconds(), q.Place.String()
		ref.SpareRenewed = s.o.SpareRenewed && q.Token == 0 && !q.HoldID.IsZero()
		if q.HoldID.IsZero() && q.Place.IsZero() {
			var there bool
			if there, results[i].Err = s.findByLockID(ctx, &ref, q.Resource); !there {
				continue
			}
		}
		asks, open = append(asks, ask{document: documentOf(q.Resource), ref: &ref}), append(open, i)
	}
	for i, o := range s.apply(ctx, release, asks) {
		results[open[i]] = s.released(o, qs[open[i]])
	}
	return results, nil
}

// findByLockID sets in ref the hold of the lock ID, and reports whether there is one. A
// hold of an old client has no ID. Its end distinguishes it from the next hold.
func (s *Store) findByLockID(ctx context.Context, ref *refParams, resource string) (there bool, err error) {
	o := s.apply(ctx, look, []ask{{document: documentOf(resource)}})[0]
	for _, h := range o.record.Holds {
		if h.LockID != ref.LockID || ref.Token != 0 && h.Token != ref.Token {
			continue
		}
		ref.HoldID, ref.Token = h.HoldID, h.Token
		if h.End != model.NoEnd {
			end := int64(h.End / 1000)
			ref.End = &end
		}
		return true, nil
	}
	return false, o.err
}

// released returns the result of a release from its outcome.
func (s *Store) released(o outcome, q driver.ReleaseRequest) driver.ReleaseResult {
	r := driver.ReleaseResult{Found: o.found, Err: o.err}
	if o.err != nil || o.stored || q.HoldID.IsZero() && !q.Place.IsZero() {
		return r
	}
	if _, there, _ := model.Release(o.record, o.now, q); there && !q.HoldID.IsZero() {
		r.Err = s.wrap(fmt.Errorf("the server did not release the hold of %q, which is in the document that it returned", q.Resource))
		return r
	}
	// A program without hold IDs may have taken over the hold.
	for _, h := range model.Statuses(o.record, o.now, driver.Filter{LockID: q.LockID}) {
		r.Remains = r.Remains || h.HoldID.IsZero() && h.Live()
	}
	return r
}
