package mongolock

import (
	"context"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Acquire implements driver.Store.
//
// One statement decides. It is safe to repeat: if it finds the hold, it changes
// nothing but the time of the last change. So the driver and the server may repeat
// it, too.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if err := ctx.Err(); err != nil {
		return driver.Grant{}, err
	}
	statement, fields := acquireExclusive, seen
	asked := obj("ttl", mongokit.Millis(q.TTL))
	lock := obj(
		"_id", bson.NewObjectID(), "lockId", q.LockID,
		"owner", q.Details.Owner, "host", q.Details.Host, "comment", q.Details.Comment,
		"createdAt", nil, "renewedAt", nil, "expiresAt", nil, "acquired", true,
		"holdId", q.HoldID.String(), "token", nil, "end", nil,
		"takeoverDelay", q.TakeoverDelay.Milliseconds(), "blocksUntil", nil,
	)
	if q.Mode == driver.Shared {
		statement, fields = acquireShared, seenBy(&q)
		limit, most := any(nil), int64(q.Limit)
		if kept := q.HeldLimit(); kept != driver.LimitUnknown {
			limit = int64(kept)
		}
		if most == 0 {
			most = math.MaxInt32 // more holds than fit into a document
		}
		asked = append(asked, obj("limit", limit, "most", most)...)
		lock = append(lock, obj("limit", limit)...)
	}
	pipeline := statement().Of(append(asked, obj("lock", lock)...))
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).
		SetProjection(fields).SetCollation(exactly)
	var raw bson.Raw
	err := mongokit.Retry(ctx, func() (err error) {
		raw, err = s.coll.FindOneAndUpdate(ctx, named(q.Resource), pipeline, opts)
		return err
	})
	if err != nil {
		return driver.Grant{}, s.batch().Explain(ctx, q.Resource, err)
	}
	d, err := s.decode(raw)
	if err != nil {
		return driver.Grant{}, err
	}
	return mongokit.Answer(mongokit.Found{Record: d.record, Now: d.now}, q)
}

// exactly compares texts byte by byte, whatever the collation of the collection.
var exactly = &options.Collation{Locale: "simple"}

func named(resource string) bson.D { return obj(resourceField, resource) }
