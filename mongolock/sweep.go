package mongolock

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// chunk is how many documents a sweep changes in one round trip.
const chunk = 500

// Sweep implements driver.Store. The server decides on its clock what has
// expired; where others change a document while it is swept, the holds it had are
// counted as one.
//
// Documents that only old clients have used, which lack Holdfast's fields, are
// swept of their holds and not deleted.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if err := ctx.Err(); err != nil {
		return total, err
	}
	now, any, err := s.clock(ctx)
	if err != nil || !any {
		return total, err
	}
	// What is idle is deleted first: what loses a hold now is not idle.
	if total.Records, err = s.deleteIdle(ctx, now-model.Time(q.Idle/time.Microsecond)); err != nil {
		return total, err
	}
	total.Holds, err = s.dropExpired(ctx, now)
	return total, err
}

// clock asks for the server's time, by any document; any says that there is one.
func (s *Store) clock(ctx context.Context) (now model.Time, any bool, err error) {
	reply, err := s.coll.FindOne(ctx, obj(), options.FindOne().SetProjection(obj("_id", 0, mongokit.NowField, "$$NOW")))
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, s.coll.Wrap(err)
	}
	now, err = s.coll.Now(reply)
	return now, err == nil, err
}

func (s *Store) deleteIdle(ctx context.Context, limit model.Time) (int, error) {
	if limit < 0 {
		return 0, nil
	}
	last := obj("$lte", int64(limit))
	deleted, err := s.coll.DeleteMany(ctx, obj(
		"exclusive.acquired", false, "shared.locks", obj("$size", 0), "shared.count", 0,
		touchedField, last, fenceField, last,
	), options.DeleteMany().SetCollation(exactly))
	return deleted, s.coll.Wrap(err)
}

func (s *Store) dropExpired(ctx context.Context, now model.Time) (holds int, err error) {
	past := obj("$lte", bson.DateTime(now/1000), "$gte", firstEnd)
	expired := obj("$or", bson.A{obj("exclusive.expiresAt", past), obj("shared.locks.expiresAt", past)})
	var resources []string
	counts := 0
	flush := func() error {
		writes := make([]mongo.WriteModel, len(resources))
		for i, resource := range resources {
			writes[i] = on(pruneOne(), resource, obj("sweep", true))
		}
		changed, _, err := s.coll.Apply(ctx, writes)
		if changed < len(resources) {
			counts = changed
		}
		holds += counts
		resources, counts = resources[:0], 0
		return err
	}
	for d, err := range s.scan(ctx, expired) {
		if errors.Is(err, driver.ErrDamaged) {
			continue // whoever asks for it is told that it is damaged
		}
		if err != nil {
			return holds, err
		}
		_, dropped, _ := model.Sweep(d.record, d.now, 0)
		if dropped == 0 {
			continue
		}
		resources, counts = append(resources, d.record.Resource), counts+dropped
		if len(resources) == chunk {
			if err := flush(); err != nil {
				return holds, err
			}
		}
	}
	return holds, flush()
}
