package mongolock

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Sweep implements driver.Store. Indexes find the documents that are due.
//
// A document that only old clients have used lacks Holdfast's fields. Sweep drops its
// expired holds but keeps the document.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	if err := ctx.Err(); err != nil {
		return driver.SweepResult{}, err
	}
	sweep := mongokit.Sweep{
		Collection: s.coll, Look: seen, Collation: exactly, Idle: idle, Expired: past,
		Decode: func(raw bson.Raw) mongokit.Found {
			d, err := s.decode(raw)
			return mongokit.Found{Record: d.record, Now: d.now, Err: err}
		},
		Drop: func(resource string, _ bson.Raw) mongo.WriteModel {
			return on(resource, pruneOne().Of(obj("sweep", true)))
		},
	}
	return sweep.Run(ctx, q)
}

// idle matches the records of resources that have not changed since limit and have no
// waiters.
func idle(limit, now model.Time) bson.D {
	last := obj("$lte", int64(limit))
	return append(obj(
		touchedField, last, fenceField, last, "shared.locks", obj("$size", 0),
		"$nor", bson.A{obj(waitersField+".until", obj("$gt", bson.DateTime(now/1000)))},
	), free...)
}

// past matches the documents with expired locks. An index has an entry for each element
// of an array: only $elemMatch applies both bounds to the same element.
func past(now bson.DateTime) bson.D {
	ends := obj("$lte", now, "$gte", firstEnd)
	return obj("$or", bson.A{obj("exclusive.expiresAt", ends), obj("shared.locks", obj("$elemMatch", obj("expiresAt", ends)))})
}
