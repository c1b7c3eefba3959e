package mongolock

import (
	"context"
	"errors"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Sweep implements driver.Store. The server decides by its clock what has expired.
// If somebody changes a document meanwhile, the holds that it had count as one. Indexes
// find the documents that are due.
//
// A document that only old clients have used lacks Holdfast's fields. Sweep drops
// its expired holds and keeps the document.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if err := ctx.Err(); err != nil {
		return total, err
	}
	now, ok, err := s.coll.Clock(ctx)
	if err != nil || !ok {
		return total, err
	}
	// Idle records go first: one that loses a hold now is not idle.
	tried := 0
	if limit := now - model.Time(q.Idle/time.Microsecond); limit >= 0 {
		total.Records, tried, err = s.coll.DeleteIdle(ctx, idle(limit, now), q.Most, exactly)
		if total.More = q.Most > 0 && tried == q.Most; err != nil || total.More {
			return total, err
		}
	}
	left := math.MaxInt
	if q.Most > 0 {
		left = q.Most - tried
	}
	total.Holds, total.More, err = s.dropExpired(ctx, now, left)
	return total, err
}

// idle matches the records of resources that have not changed since limit, and for which
// nobody waits.
func idle(limit, now model.Time) bson.D {
	last := obj("$lte", int64(limit))
	return append(obj(
		touchedField, last, fenceField, last, "shared.locks", obj("$size", 0),
		"$nor", bson.A{obj(waitersField+".until", obj("$gt", bson.DateTime(now/1000)))},
	), free...)
}

// dropExpired drops the holds that no longer block. most bounds the number of resources.
// more says that it stopped there.
func (s *Store) dropExpired(ctx context.Context, now model.Time, most int) (holds int, more bool, err error) {
	// An index has an array once for each element: only $elemMatch bounds it on both
	// sides.
	past := obj("expiresAt", obj("$lte", bson.DateTime(now/1000), "$gte", firstEnd))
	expired := obj("$or", bson.A{obj("exclusive.expiresAt", past[0].Value), obj("shared.locks", obj("$elemMatch", past))})
	var resources []string
	counts, tried := 0, 0
	flush := func() error {
		writes := make([]mongo.WriteModel, len(resources))
		for i, resource := range resources {
			writes[i] = on(resource, pruneOne().Of(obj("sweep", true)))
		}
		done, err := s.coll.Apply(ctx, writes)
		if done.Changed < len(resources) {
			counts = done.Changed
		}
		holds += counts
		resources, counts = resources[:0], 0
		return err
	}
	for d, err := range s.scan(ctx, expired, seen) {
		if errors.Is(err, driver.ErrDamaged) {
			continue // an acquire reports the damage
		}
		if err != nil {
			return holds, false, err
		}
		_, dropped, _ := model.Sweep(d.record, d.now, 0)
		if dropped == 0 {
			continue
		}
		if tried == most {
			more = true
			break
		}
		resources, counts = append(resources, d.record.Resource), counts+dropped
		if tried++; len(resources) == mongokit.Chunk {
			if err := flush(); err != nil {
				return holds, false, err
			}
		}
	}
	return holds, more, flush()
}
