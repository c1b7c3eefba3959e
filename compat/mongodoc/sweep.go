package mongodoc

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// chunk is how many documents a sweep changes in one round trip.
const chunk = 500

// Sweep implements driver.Store. It drops old programs' holds, too, when they have
// expired. In a layout where a document is a hold, it deletes the document; where
// old programs do not make documents, it deletes none.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	st, err := s.begin(ctx)
	if err != nil {
		return total, err
	}
	reply, err := s.coll.FindOne(ctx, obj(), options.FindOne().SetProjection(st.seen()))
	if errors.Is(err, mongo.ErrNoDocuments) {
		return total, nil
	}
	if err != nil {
		return total, s.coll.Wrap(err)
	}
	now, err := s.coll.Now(reply)
	if err != nil {
		return total, err
	}
	// What is idle is deleted first: what loses a hold now is not idle.
	tried := 0
	if !st.keeps {
		total.Records, tried, err = s.deleteIdle(ctx, now-model.Time(q.Idle/time.Microsecond), q.Most)
		if total.More = q.Most > 0 && tried == q.Most; err != nil || total.More {
			return total, err
		}
	}
	var holds, marks []mongo.WriteModel
	flush := func() error {
		for _, part := range []struct {
			writes *[]mongo.WriteModel
			count  *int
		}{{&holds, &total.Holds}, {&marks, &total.Records}} {
			n, _, err := s.coll.Apply(ctx, *part.writes)
			if *part.count += n; err != nil {
				return err
			}
			*part.writes = (*part.writes)[:0]
		}
		return nil
	}
	for raw, err := range s.coll.Scan(ctx, st.expired(bson.DateTime(now/millisecond)), options.Find().SetProjection(st.seen())) {
		if err != nil {
			return total, err
		}
		f := s.decode(st, raw)
		if f.Err != nil {
			continue // whoever asks for it is told that it is damaged
		}
		_, dropped, _ := model.Sweep(f.Record, f.Now, 0)
		switch {
		case dropped > 0:
			holds = append(holds, st.sweeping(f.Record.Resource, raw))
		case st.removes && len(f.Record.Holds) == 0:
			marks = append(marks, st.sweeping(f.Record.Resource, raw))
		default:
			continue
		}
		if tried++; tried == q.Most {
			total.More = true
			break
		}
		if len(holds)+len(marks) == chunk {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// sweeping drops the hold that has expired. Where that deletes the document, it
// must be as it was found: what has expired stays so unless the document changes.
func (st *statements) sweeping(resource string, found bson.Raw) mongo.WriteModel {
	if !st.removes {
		return on(st.prune, resource, obj("sweep", true))
	}
	filter := append(named(resource), obj("lockedAt", nil, added+".touched", nil)...)
	for i, path := range [][]string{{"lockedAt"}, {added, "touched"}} {
		if v, err := found.LookupErr(path...); err == nil {
			v.Value = slices.Clone(v.Value) // the cursor will reuse it
			filter[i+1].Value = v
		}
	}
	return mongo.NewDeleteOneModel().SetFilter(filter)
}

// deleteIdle deletes the records of resources that nobody holds, so many at most;
// most is 0 for all. An old program that takes one of them changes obtained_at.
// tried are those that it found, some of which may have been taken since.
func (s *Store) deleteIdle(ctx context.Context, limit model.Time, most int) (deleted, tried int, err error) {
	if limit < 0 {
		return 0, 0, nil
	}
	last := obj("$lte", int64(limit))
	idle := obj(
		"obtained_at", longAgo, added+".shown.obtained_at", longAgo, added+".lockId", nil,
		added+".touched", last, added+".token", last,
	)
	if most == 0 {
		deleted, err = s.coll.DeleteMany(ctx, idle)
		return deleted, deleted, s.coll.Wrap(err)
	}
	for tried < most {
		var ids bson.A
		opts := options.Find().SetProjection(obj("_id", 1)).SetLimit(int64(min(chunk, most-tried)))
		for raw, err := range s.coll.Scan(ctx, idle, opts) {
			if err != nil {
				return deleted, tried, err
			}
			id := raw.Lookup("_id")
			id.Value = slices.Clone(id.Value) // the cursor will reuse it
			ids = append(ids, id)
		}
		if len(ids) == 0 {
			break
		}
		n, err := s.coll.DeleteMany(ctx, append(obj("_id", obj("$in", ids)), idle...))
		deleted, tried = deleted+n, tried+len(ids)
		if err != nil {
			return deleted, tried, s.coll.Wrap(err)
		}
	}
	return deleted, tried, nil
}
