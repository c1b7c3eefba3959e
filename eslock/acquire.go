package eslock

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/esdoc"
)

// Acquire implements driver.Store.
//
// One update decides. It is safe to repeat, because it writes a hold that it finds
// unchanged: so the client and the server may repeat it, too.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if err := s.ready(ctx); err != nil {
		return driver.Grant{}, err
	}
	if s.o.OldClients {
		if err := oldName(q.Resource); err != nil {
			return driver.Grant{}, err
		}
	}
	var limit *int
	if n := q.HeldLimit(); q.Mode == driver.Shared && n != driver.LimitUnknown {
		limit = &n
	}
	o := s.apply(ctx, acquire, []ask{{document: documentOf(q.Resource), acquire: &acquireParams{
		Limit: q.Limit, OwnLimit: q.OwnLimit, TTL: millis(q.TTL),
		Hold: holdJSON{
			LockID: q.LockID, HoldID: &q.HoldID, Mode: &q.Mode, Limit: limit,
			Owner: q.Details.Owner, Host: q.Details.Host, Comment: q.Details.Comment,
			Delay: q.TakeoverDelay.Milliseconds(),
		},
	}}})[0]
	switch {
	case o.err != nil:
		return driver.Grant{}, o.err
	case o.stored: // on all copies that must have it
		return driver.Grant{Token: o.token, Left: o.left()}, nil
	}
	q.Waiting = false // this store notes no waiters
	_, _, _, err := model.Acquire(o.record, o.now, q)
	if err == nil {
		err = s.wrap(fmt.Errorf("the server did not grant %q, although nothing in the document that it returned is in the way", q.Resource))
	}
	return driver.Grant{}, err
}

// oldName refuses a name that programs with es-distributed-lock take for another one:
// it would not exclude the programs that use the same name there.
func oldName(resource string) error {
	old, err := esdoc.Old(resource)
	if err == nil && old != resource {
		err = fmt.Errorf("programs with es-distributed-lock lock the document %q by the ID %q: use %[1]q here", old, resource)
	}
	if err != nil {
		return fmt.Errorf("%w: resource: %w", driver.ErrInvalid, err)
	}
	return nil
}
