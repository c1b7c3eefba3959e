package mongodoc_test

import (
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

// damages has damage for all layouts and for single ones.
var damages = map[string]map[string]bson.D{
	"": {
		"what was added is a text":  obj("holdfast", "none"),
		"what was added is a list":  obj("holdfast", bson.A{1}),
		"lockId is a number":        obj("holdfast.lockId", 5),
		"lockId is empty":           obj("holdfast.lockId", ""),
		"holdId is a number":        obj("holdfast.holdId", 7),
		"end is a text":             obj("holdfast.end", "soon"),
		"end is a number":           obj("holdfast.end", 1),
		"token is a text":           obj("holdfast.token", "7"),
		"takeoverDelay is a text":   obj("holdfast.takeoverDelay", "7"),
		"takeoverDelay is negative": obj("holdfast.takeoverDelay", -1),
		"released is a number":      obj("holdfast.released", 1),
		"touched is a text":         obj("holdfast.touched", "now"),
	},
	"TTL": {
		"lockedAt is a text":   obj("lockedAt", "now"),
		"lockedAt is a number": obj("lockedAt", 5),
		"lockedAt is a list":   obj("lockedAt", bson.A{time.Now()}),
		"lockedAt is too far":  obj("lockedAt", bson.DateTime(1<<60)),
	},
	"flag": {
		"locked is a text":   obj("locked", "yes"),
		"locked is a number": obj("locked", 1),
		"lockedAt is a text": obj("lockedAt", "now"),
	},
	"value": {
		"value is a number":       obj("value", 5),
		"value is empty":          obj("value", ""),
		"value is null":           obj("value", nil),
		"ttl is a text":           obj("ttl", "30"),
		"ttl is huge":             obj("ttl", 1e300),
		"ttl is a date":           obj("ttl", time.Now()),
		"obtained_at is a text":   obj("obtained_at", "now"),
		"obtained_at is a number": obj("obtained_at", 5),
	},
}

// A damaged document is a named error for all requests, and does not change by a
// byte.
func TestDamage(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll := newCollection(t)
		s := start(t, l.open(coll))
		for _, of := range []string{"", l.name} {
			for name, damage := range damages[of] {
				t.Run(name, func(t *testing.T) {
					ref := ask.Granted(t, s, ask.Request(name, "a"))
					update(t, coll, name, damage)
					before := raw(t, coll, name)
					ask.Damaged(t, s, ref)
					old := driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: name, LockID: mongodoc.OldLockID}}
					if rs, err := s.Release(t.Context(), []driver.ReleaseRequest{old}); err != nil || !errors.Is(rs[0].Err, driver.ErrDamaged) {
						t.Errorf("release of an old lock: %v %v", rs, err)
					}
					if after := raw(t, coll, name); after.String() != before.String() {
						t.Errorf("the document was\n%v\nand is\n%v", before, after)
					}
				})
			}
		}
		good := ask.Granted(t, s, ask.Request("zz good", "a"))
		var shown []driver.Status
		var last error
		for st, err := range s.List(t.Context(), driver.Filter{}) {
			if last = err; err == nil {
				shown = append(shown, st)
			}
		}
		if len(shown) != 1 || shown[0].Ref() != good || !errors.Is(last, driver.ErrDamaged) {
			t.Errorf("list shows %+v and ends with %v; want the sound documents, then the damage", shown, last)
		}
	})
}
