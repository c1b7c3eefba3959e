package mongolock

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// look reads the documents of resources.
func (s *Store) look(ctx context.Context, resources []string) (map[string]mongokit.Found, error) {
	docs := make(map[string]mongokit.Found, len(resources))
	for d, err := range s.scan(ctx, obj(resourceField, obj("$in", resources)), seenWithPlaces) {
		if err != nil && d.record.Resource == "" {
			return nil, err
		}
		docs[d.record.Resource] = mongokit.Found{Record: d.record, Now: d.now, Err: err}
	}
	return docs, nil
}

// together is the number of holds of one document that a statement renews or releases.
// With names of driver.MaxName bytes, and with what the statement keeps for each hold,
// they take far less than 16 MB, the limit of a document.
const together = 1000

func (s *Store) batch(onlyExpired bool) *mongokit.Batch {
	return &mongokit.Batch{
		Collection: s.coll,
		Look:       s.look,
		Renewal:    func(qs []driver.RenewRequest) mongo.WriteModel { return on(qs[0].Resource, s.renewal(qs)) },
		Ending:     func(qs []driver.ReleaseRequest) mongo.WriteModel { return on(qs[0].Resource, ending(qs, onlyExpired)) },
		Together:   together,
		Queued:     queued,
	}
}

// Renew implements driver.Store. A single renewal that succeeds takes one round trip, and
// its reply has the number of waiters. See mongokit.Batch for several renewals.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if len(qs) != 1 {
		return s.batch(false).Renew(ctx, qs)
	}
	q := qs[0]
	d, err := s.change(ctx, q.Resource, s.renewal(qs), options.After, seenOf(q.LockID))
	if err != nil && !errors.Is(err, driver.ErrDamaged) {
		return nil, err
	}
	f := mongokit.Found{Record: d.record, Now: d.now, Err: err}
	renewed := func(h model.Hold) bool { return h.LockID == q.LockID && h.Renewed == d.now }
	if err == nil && slices.ContainsFunc(d.record.Holds, renewed) {
		r := mongokit.Renewed(f, q, nil)
		r.Waiters = d.queue.places
		return []driver.RenewResult{r}, nil
	}
	// The hold is lost, the reply is that of an earlier attempt, or a hold that the reply
	// lacks is damaged.
	if err == nil {
		docs, err := s.look(ctx, []string{q.Resource})
		if err != nil {
			return nil, err
		}
		f = docs[q.Resource]
	}
	return []driver.RenewResult{mongokit.Renewed(f, q, nil)}, nil
}

// Release implements driver.Store. A single release of a place takes one round trip: the
// reply shows whether the hold existed. See mongokit.Batch for all other releases.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if len(qs) != 1 || qs[0].Place.IsZero() {
		return s.batch(mongokit.IsOnlyExpired(ctx)).Release(ctx, qs)
	}
	d, err := s.change(ctx, qs[0].Resource, ending(qs, false), options.Before, seen)
	if err != nil && !errors.Is(err, driver.ErrDamaged) {
		return nil, err
	}
	return []driver.ReleaseResult{mongokit.Released(mongokit.Found{Record: d.record, Now: d.now, Err: err}, qs[0])}, nil
}

// change updates the document of a resource, and returns it as it was or as it is now. If
// it does not exist, change returns a document without holds.
func (s *Store) change(
	ctx context.Context, resource string, update mongokit.Pipeline, which options.ReturnDocument, fields bson.D,
) (d document, err error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	opts := options.FindOneAndUpdate().SetReturnDocument(which).SetProjection(fields).SetCollation(exactly)
	raw, err := s.update(ctx, resource, update, opts)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	return s.decode(raw)
}

// update updates the document of a resource, and returns what opts selects.
func (s *Store) update(
	ctx context.Context, resource string, update mongokit.Pipeline, opts *options.FindOneAndUpdateOptionsBuilder,
) (raw bson.Raw, err error) {
	err = mongokit.Retry(ctx, func() (err error) {
		raw, err = s.coll.FindOneAndUpdate(ctx, named(resource), update, opts)
		return err
	})
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		err = s.batch(false).Explain(ctx, resource, err)
	}
	return raw, err
}

// on returns the write that applies an update to one resource.
func on(resource string, update mongokit.Pipeline) mongo.WriteModel {
	return mongo.NewUpdateOneModel().SetFilter(named(resource)).SetUpdate(update).SetCollation(exactly)
}
