package mongolock

import (
	"context"
	"errors"
	"math"
	"slices"
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
// counted as one. What is due is found by indexes.
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
	left := q.Most
	if left == 0 {
		left = math.MaxInt
	}
	// What is idle is deleted first: what loses a hold now is not idle.
	var tried int
	if total.Records, tried, err = s.deleteIdle(ctx, now-model.Time(q.Idle/time.Microsecond), left); err != nil {
		return total, err
	}
	if left -= tried; left == 0 {
		total.More = true
		return total, nil
	}
	total.Holds, total.More, err = s.dropExpired(ctx, now, left)
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

// deleteIdle deletes records that nobody has touched since limit. tried are those
// that it found, some of which may have been taken since.
func (s *Store) deleteIdle(ctx context.Context, limit model.Time, most int) (deleted, tried int, err error) {
	if limit < 0 {
		return 0, 0, nil
	}
	last := obj("$lte", int64(limit))
	idle := append(obj(touchedField, last, fenceField, last, "shared.locks", obj("$size", 0)), free...)
	var ids bson.A
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		n, err := s.coll.DeleteMany(ctx, append(obj("_id", obj("$in", ids)), idle...), options.DeleteMany().SetCollation(exactly))
		deleted, ids = deleted+n, nil
		return s.coll.Wrap(err)
	}
	opts := options.Find().SetProjection(obj("_id", 1)).SetCollation(exactly)
	for raw, err := range s.coll.Scan(ctx, idle, opts) {
		if err != nil {
			return deleted, tried, err
		}
		id := raw.Lookup("_id")
		id.Value = slices.Clone(id.Value) // the cursor will reuse it
		ids = append(ids, id)
		if tried++; len(ids) == chunk || tried == most {
			if err := flush(); err != nil || tried == most {
				return deleted, tried, err
			}
		}
	}
	return deleted, tried, flush()
}

// dropExpired drops the holds of so many resources that no longer block. more says
// that it stopped there.
func (s *Store) dropExpired(ctx context.Context, now model.Time, most int) (holds int, more bool, err error) {
	// An array is in an index once for each element: only $elemMatch bounds it on
	// both sides.
	past := obj("expiresAt", obj("$lte", bson.DateTime(now/1000), "$gte", firstEnd))
	expired := obj("$or", bson.A{obj("exclusive.expiresAt", past[0].Value), obj("shared.locks", obj("$elemMatch", past))})
	var resources []string
	counts, tried := 0, 0
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
		if tried++; len(resources) == chunk {
			if err := flush(); err != nil {
				return holds, false, err
			}
		}
	}
	return holds, more, flush()
}
