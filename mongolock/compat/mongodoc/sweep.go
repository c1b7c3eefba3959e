package mongodoc

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Sweep implements driver.Store. It also drops expired holds of old programs. In NewTTL's
// layout it deletes the document with the hold, in NewValue's it deletes idle documents.
// In NewFlag's it deletes none, because old programs do not create them.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	st, err := s.begin(ctx)
	if err != nil {
		return driver.SweepResult{}, err
	}
	sweep := mongokit.Sweep{
		Collection: s.coll, Look: st.seen(), Expired: st.expired, Empty: st.removes, Drop: st.sweeping,
		Decode: func(raw bson.Raw) mongokit.Found { return s.decode(st, raw) },
	}
	if !st.keeps {
		sweep.Idle = idle
	}
	return sweep.Run(ctx, q)
}

// sweeping drops the expired hold. If that deletes the document, it must not have changed
// since it was read: the hold of an unchanged document stays expired.
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

// idle matches the records of resources that nobody holds or has touched since limit. An
// old program that takes such a resource changes obtained_at.
func idle(limit, _ model.Time) bson.D {
	last := obj("$lte", int64(limit))
	return obj(
		"obtained_at", longAgo, added+".shown.obtained_at", longAgo, added+".lockId", nil,
		added+".touched", last, added+".token", last,
	)
}
