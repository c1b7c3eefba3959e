package eslock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Acquire implements driver.Store.
//
// One update decides. It is safe to repeat, for it changes nothing where it finds
// the hold: the client and the server may thus repeat it, too.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if err := s.ready(ctx); err != nil {
		return driver.Grant{}, err
	}
	d := documentOf(q.Resource)
	o := s.apply(ctx, acquire, []ask{{document: d, params: acquireParams{
		document: d, Limit: q.Limit, TTL: millis(q.TTL),
		Hold: holdJSON{
			LockID: q.LockID, HoldID: &q.HoldID, Mode: &q.Mode,
			Owner: q.Details.Owner, Host: q.Details.Host, Comment: q.Details.Comment,
			Delay: q.TakeoverDelay.Milliseconds(),
		},
	}}})[0]
	if o.err != nil {
		return driver.Grant{}, o.err
	}
	return s.answer(o, q)
}

// answer reads off the document what the server decided. Whoever was granted the
// resource has its hold there, since when ever.
func (s *Store) answer(o outcome, q driver.AcquireRequest) (driver.Grant, error) {
	q.Waiting = false // nothing is noted here
	if o.did == missing {
		return driver.Grant{}, s.wrap(fmt.Errorf("%q was neither granted nor refused", q.Resource))
	}
	_, g, changed, err := model.Acquire(o.record, o.now, q)
	if changed || err != nil && o.did != noop {
		return driver.Grant{}, s.wrap(fmt.Errorf("the server says %q of %q, which does not go with the document it tells of", o.did, q.Resource))
	}
	return g, err
}
