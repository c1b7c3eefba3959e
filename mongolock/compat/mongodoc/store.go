package mongodoc

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Store is a driver.Store in a collection. Any number of clients may use it, after Init.
type Store struct {
	coll    *mongokit.Collection
	traits  driver.Traits
	prepare func(context.Context, *mongokit.Collection, []mongokit.Index) (*layout, error)
	ready   atomic.Pointer[statements] // set by Init
	kind    string                     // the name of the layout in URLs
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

func newStore(
	coll *mongo.Collection, kind string, fencing driver.Fencing,
	prepare func(context.Context, *mongokit.Collection, []mongokit.Index) (*layout, error),
) *Store {
	return &Store{
		coll: mongokit.New(coll), prepare: prepare, kind: kind,
		traits: driver.Traits{
			Name: "mongodb-" + kind, Reach: driver.Network, ServerClock: true, Durable: true, Fencing: fencing, Failover: driver.FailoverKeeps,
		},
	}
}

// Traits implements driver.Store.
func (s *Store) Traits() driver.Traits { return s.traits }

// Close implements driver.Store. It disconnects the client only if a URL opened the
// store.
func (s *Store) Close() error { return s.coll.Close() }

// begin returns the statements, or an error if the ctx has ended or Init was not called.
func (s *Store) begin(ctx context.Context) (*statements, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	st := s.ready.Load()
	if st == nil {
		return nil, fmt.Errorf("%w: MongoDB collection %s: Init comes first", driver.ErrUnusable, s.coll.FullName())
	}
	return st, nil
}

// Acquire implements driver.Store.
//
// One statement decides. It is safe to repeat: if it finds the hold, it changes only the
// time of the last change. So the driver and the server may repeat it, too.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	st, err := s.begin(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	if q.Mode != driver.Exclusive {
		return driver.Grant{}, fmt.Errorf("%w: the layout of %s has no shared locks", driver.ErrUnsupported, s.coll.FullName())
	}
	if st.lockID == "" && q.LockID == OldLockID {
		return driver.Grant{}, fmt.Errorf("%w: lock ID %q stands for old programs", driver.ErrInvalid, OldLockID)
	}
	blocks := q.TTL
	if blocks != driver.Forever {
		blocks += q.TakeoverDelay
	}
	pipeline := st.acquire.Of(obj(
		"ttl", mongokit.Millis(q.TTL), "seconds", wholeSeconds(blocks),
		"hold", obj(
			"lockId", q.LockID, "holdId", q.HoldID.String(),
			"owner", q.Details.Owner, "host", q.Details.Host, "comment", q.Details.Comment,
			"takeoverDelay", q.TakeoverDelay.Milliseconds(),
		),
	), "fresh", fresh)
	// Every document matches the second condition, which leaves a mark in a new one, see
	// fresh. Besides, in DocumentDB an upsert by _id alone overwrites a document that
	// another upsert has inserted in between.
	filter := obj("_id", q.Resource, mongokit.Scratch, nil)
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).SetProjection(st.seen())
	var raw bson.Raw
	err = mongokit.Retry(ctx, func() (err error) {
		raw, err = s.coll.FindOneAndUpdate(ctx, filter, pipeline, opts)
		return err
	})
	if err != nil {
		return driver.Grant{}, s.batch(st).Explain(ctx, q.Resource, err)
	}
	f := s.decode(st, raw)
	if f.Err != nil {
		return driver.Grant{}, f.Err
	}
	return mongokit.Answer(f, q)
}

func named(resource string) bson.D { return obj("_id", resource) }

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	st, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	return s.batch(st).Renew(ctx, qs)
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	st, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	return s.batch(st).Release(ctx, qs)
}

func (s *Store) batch(st *statements) *mongokit.Batch {
	return &mongokit.Batch{
		Collection: s.coll,
		Look: func(ctx context.Context, resources []string) (map[string]mongokit.Found, error) {
			docs := make(map[string]mongokit.Found, len(resources))
			query := obj("_id", obj("$in", resources))
			for raw, err := range s.coll.Scan(ctx, query, options.Find().SetProjection(st.seen())) {
				if err != nil {
					return nil, err
				}
				f := s.decode(st, raw)
				docs[f.Record.Resource] = f
			}
			return docs, nil
		},
		Renewal:  func(qs []driver.RenewRequest) mongo.WriteModel { return st.renewal(qs[0]) },
		Ending:   func(qs []driver.ReleaseRequest) mongo.WriteModel { return st.ending(qs[0]) },
		Together: 1,
	}
}

func (st *statements) renewal(q driver.RenewRequest) mongo.WriteModel {
	return on(st.renew, q.Resource, append(mongokit.RefAsk(q.HoldRef), obj(
		"ttl", mongokit.Millis(q.TTL), "seconds", wholeSeconds(q.TTL))...))
}

func (st *statements) ending(q driver.ReleaseRequest) mongo.WriteModel {
	if st.removes && q.After == 0 {
		return mongo.NewDeleteOneModel().SetFilter(removal(q.HoldRef))
	}
	return on(st.release, q.Resource, append(mongokit.RefAsk(q.HoldRef), obj(
		"after", q.After.Milliseconds(), "seconds", wholeSeconds(q.After))...))
}

// on returns the write that applies a statement to one resource.
func on(s mongokit.Statement, resource string, ask bson.D) mongo.WriteModel {
	return mongo.NewUpdateOneModel().SetFilter(named(resource)).SetUpdate(s.Of(ask, "fresh", false))
}

// removal matches the document of the TTL layout if it has the hold and is sound, by the
// rules of the statements. With this filter the server decides what it deletes.
func removal(ref driver.HoldRef) bson.D {
	same := eq(orElse("$"+shown("lockedAt"), 0), orElse("$lockedAt", nil))
	if ref.LockID == OldLockID {
		// The hold of an old program, which Holdfast may have changed later.
		return append(named(ref.Resource), obj(
			"$expr", and(dateOrNone("$lockedAt"), addedSound),
			"$or", bson.A{obj("$expr", not(same)), obj("$expr", holdSound, added+".lockId", OldLockID)},
		)...)
	}
	filter := append(named(ref.Resource), obj(
		"$expr", and(dateOrNone("$lockedAt"), addedSound, same, holdSound), added+".lockId", ref.LockID,
	)...)
	if ref.HoldID.IsZero() {
		filter = append(filter, obj("$or", bson.A{obj(added+".holdId", nil), obj(added+".holdId", obj("$type", "string"))})...)
	} else {
		filter = append(filter, obj(added+".holdId", ref.HoldID.String())...)
	}
	if ref.Token != 0 {
		filter = append(filter, obj(added+".token", int64(ref.Token))...)
	}
	return filter
}
