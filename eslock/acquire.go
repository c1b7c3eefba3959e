package eslock

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/esdoc"
)

// Acquire implements driver.Store.
//
// One update decides. It is safe to repeat, because it writes a hold that it finds
// unchanged. So the client and the server may repeat it, too. A refusal with a place is
// also an update; a refusal without a place stores nothing.
//
// The server stores the place before it answers, and an error of the write does not say
// what the script decided. If the document cannot be stored, because others constantly
// change it or because it does not fit into the index with the place, Acquire sends the
// request again without a place: a place is optional, and a refusal must not be lost
// because of it. If the server does not run the script, because writes to the index are
// blocked or it has too many requests, no request can be refused, with or without a
// place, and Acquire returns the error.
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
	if q.Mode == driver.Shared {
		limit = &q.Limit
	}
	params := acquireParams{
		TTL: millis(q.TTL),
		Hold: holdJSON{
			LockID: q.LockID, HoldID: &q.HoldID, Mode: q.Mode, Limit: limit,
			Owner: q.Details.Owner, Host: q.Details.Host, Comment: q.Details.Comment,
			Delay: q.TakeoverDelay.Milliseconds(),
		},
	}
	if !q.Place.IsZero() {
		place, err := model.EncodePlace(q)
		if err != nil {
			return driver.Grant{}, fmt.Errorf("%w: %v", driver.ErrInvalid, err)
		}
		params.Place, params.PlaceTTL = json.RawMessage(place), q.PlaceTTL().Milliseconds()
	}
	asks := []ask{{document: documentOf(q.Resource), acquire: &params}}
	o := s.apply(ctx, acquire, asks)[0]
	if params.PlaceTTL != 0 && unfit(o.err) {
		params.PlaceTTL = 0
		o = s.apply(ctx, acquire, asks)[0]
	}
	switch {
	case o.err != nil:
		return driver.Grant{}, o.err
	case o.found: // on all copies that must have it
		return driver.Grant{Token: o.token, Left: o.left()}, nil
	}
	q.Place = driver.PlaceID{} // the places in the answer are all ahead
	held := model.Refused(o.record, o.now, q)
	held.Position, held.Waiters = o.position, o.waiters
	own := func(h driver.Status) bool {
		return h.HoldID == q.HoldID && h.LockID == q.LockID && !h.Released && h.Live()
	}
	if len(held.Holders)+len(held.Ahead) == 0 || slices.ContainsFunc(held.Holders, own) {
		return driver.Grant{}, s.wrap(fmt.Errorf("the server did not grant %q, although nothing in the document that it returned is in the way", q.Resource))
	}
	return driver.Grant{}, held
}

// oldName refuses a name that programs with es-distributed-lock read as another name: a
// lock with it would not exclude the programs that use the same name.
func oldName(resource string) error {
	old, err := esdoc.Old(resource)
	if err == nil && old != resource {
		err = fmt.Errorf("programs with es-distributed-lock lock the document %q by the ID %q: use %[1]q here", old, resource)
		if slashes := strings.TrimPrefix(resource, old); strings.Trim(slashes, "/") == "" {
			err = fmt.Errorf("%w; they lock the document %q by the ID %q, and to use that, leave out OldClients, or old_clients in the URL",
				err, resource, old+strings.ReplaceAll(slashes, "/", "%2F"))
		}
	}
	if err != nil {
		return fmt.Errorf("%w: resource: %w", driver.ErrInvalid, err)
	}
	return nil
}
