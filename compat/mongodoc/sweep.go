package mongodoc

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Sweep implements driver.Store. It also drops expired holds of old programs. In a
// layout where a document is a hold, it deletes the document; where old programs do
// not create documents, it deletes none.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	st, err := s.begin(ctx)
	if err != nil {
		return total, err
	}
	now, ok, err := s.coll.Clock(ctx)
	if err != nil || !ok {
		return total, err
	}
	// Idle records go first: one that loses a hold now is not idle.
	tried := 0
	if limit := now - model.Time(q.Idle/time.Microsecond); !st.keeps && limit >= 0 {
		total.Records, tried, err = s.coll.DeleteIdle(ctx, idle(limit), q.Most, nil)
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
			done, err := s.coll.Apply(ctx, *part.writes)
			if *part.count += done.Changed; err != nil {
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
			continue // an acquire reports the damage
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
		if len(holds)+len(marks) == mongokit.Chunk {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// sweeping drops the hold that has expired. If that deletes the document, the
// document must not have changed since it was read: as long as it does not change,
// the hold stays expired.
func (st *statements) sweeping(resource string, found bson.Raw) mongo.WriteModel {
	if !st.removes {
		return on(st.prune, resource, obj("sweep", true))
	}
	filter := append(named(resource), obj("lockedAt", nil, added+".touched", nil)...)
	for i, path := range [][]string{{"lockedAt"}, {added, "touched"}} {
		if v, err := found.LookupErr(path...); err == nil {
			v.Value = slices.Clone(v.Value) // the cursor reuses it
			filter[i+1].Value = v
		}
	}
	return mongo.NewDeleteOneModel().SetFilter(filter)
}

// idle matches the records of resources that nobody holds or has touched since
// limit. An old program that takes one of them changes obtained_at.
func idle(limit model.Time) bson.D {
	last := obj("$lte", int64(limit))
	return obj(
		"obtained_at", longAgo, added+".shown.obtained_at", longAgo, added+".lockId", nil,
		added+".touched", last, added+".token", last,
	)
}
