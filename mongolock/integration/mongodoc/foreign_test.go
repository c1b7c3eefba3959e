package mongodoc_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

func renew(t testing.TB, s driver.Store, ref driver.HoldRef, ttl time.Duration) error {
	t.Helper()
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: ttl}})
	if err != nil {
		t.Fatal(err)
	}
	return rs[0].Err
}

func list(t testing.TB, s driver.Store, f driver.Filter) (all []driver.Status) {
	t.Helper()
	for st, err := range s.List(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, st)
	}
	return all
}

func update(t testing.TB, coll *mongo.Collection, resource string, fields bson.D) {
	t.Helper()
	if res, err := coll.UpdateByID(t.Context(), resource, obj("$set", fields)); err != nil || res.ModifiedCount != 1 {
		t.Fatal(err, res)
	}
}

// foreign returns the fields that an old program writes over a hold of lock ID "a", and
// the lock ID of the resulting hold. It lives for an hour and 30 s.
func foreign(l layout) (fields bson.D, lockID string) {
	switch l.name {
	case "TTL":
		return obj("lockedAt", time.Now().Add(time.Hour)), mongodoc.OldLockID
	case "flag":
		return obj("locked", true, "lockedAt", time.Now().Add(time.Hour)), mongodoc.OldLockID
	}
	return obj("value", "a", "ttl", 3630, "obtained_at", time.Now()), "a"
}

// Fields written by an old program are a new hold. References to the former hold stop
// matching, and never match again.
func TestForeignFields(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll := newCollection(t)
		s := start(t, l.open(coll))
		fields, lockID := foreign(l)
		q := ask.Request("r", "a")
		ref := ask.Granted(t, s, q)
		update(t, coll, "r", fields)
		check := func(least, most time.Duration) {
			t.Helper()
			if err := renew(t, s, ref, time.Hour); !errors.Is(err, driver.ErrLost) {
				t.Errorf("renewal of the former hold: error %v, want ErrLost", err)
			}
			if ask.Released(t, s, ref, 0) || ask.Released(t, s, ref, time.Second) {
				t.Error("a release found the former hold")
			}
			var held *driver.HeldError
			_, err := s.Acquire(t.Context(), q)
			if !errors.As(err, &held) || held.BySelf != (lockID == "a") {
				t.Errorf("repeat of the acquire: error %v", err)
			}
			all := list(t, s, driver.Filter{LockID: lockID})
			if len(all) != 1 || !all[0].HoldID.IsZero() || all[0].Token != 0 || all[0].Left < least || all[0].Left > most || all[0].Owner != "" {
				t.Errorf("list shows %+v, want a hold without ID and %v to %v left", all, least, most)
			}
		}
		check(time.Hour-5*time.Minute, time.Hour+time.Minute)
		anyHold := driver.HoldRef{Resource: "r", LockID: lockID}
		if ask.Released(t, s, driver.HoldRef{Resource: "r", LockID: "another"}, 0) {
			t.Error("a release by another lock ID found it")
		}
		if err := renew(t, s, anyHold, 3*time.Hour); err != nil {
			t.Fatal(err)
		}
		check(3*time.Hour-5*time.Minute, 3*time.Hour)
		if !ask.Released(t, s, anyHold, time.Minute) {
			t.Error("a release with a delay did not find it")
		}
		check(time.Second, time.Minute)
		if err := renew(t, s, anyHold, time.Hour); !errors.Is(err, driver.ErrLost) {
			t.Errorf("renewal of a released hold: %v, want ErrLost", err)
		}
		if !ask.Released(t, s, anyHold, 0) || ask.Released(t, s, anyHold, 0) {
			t.Error("it was not released exactly once")
		}
		next := ask.Granted(t, s, ask.Request("r", "b"))
		l.follows(t, next, ref)
	})
}

// An old program that releases by name ends Holdfast's hold.
func TestReleaseByName(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll := newCollection(t)
		s := start(t, l.open(coll))
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		if l.name == "flag" {
			update(t, coll, "r", obj("locked", false))
		} else if _, err := coll.DeleteOne(t.Context(), named("r")); err != nil {
			t.Fatal(err)
		}
		if err := renew(t, s, ref, time.Hour); !errors.Is(err, driver.ErrLost) {
			t.Errorf("renewal: %v, want ErrLost", err)
		}
		if n := len(list(t, s, driver.Filter{Expired: true})); n != 0 {
			t.Errorf("list shows %d holds", n)
		}
		next := ask.Granted(t, s, ask.Request("r", "b"))
		l.follows(t, next, ref)
		if ask.Released(t, s, ref, 0) {
			t.Error("the successor was released")
		}
	})
}

// Documents with missing or additional fields are accepted, and keep the additional ones.
func TestUnderstood(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		layout string
		doc    bson.D
		free   bool
	}{
		"TTL, without a date":             {"TTL", obj("note", "mine"), false},
		"TTL, date is null":               {"TTL", obj("lockedAt", nil), false},
		"TTL, of the year 1":              {"TTL", obj("lockedAt", time.Time{}), true},
		"TTL, of the year 9999":           {"TTL", obj("lockedAt", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)), false},
		"TTL, expired":                    {"TTL", obj("lockedAt", long, "note", "mine"), true},
		"TTL, what Holdfast had is gone":  {"TTL", obj("lockedAt", long, "holdfast", nil), true},
		"flag, nothing":                   {"flag", obj("note", "mine"), true},
		"flag, free":                      {"flag", obj("locked", false), true},
		"flag, free, nulls":               {"flag", obj("locked", nil, "lockedAt", nil), true},
		"flag, without a date":            {"flag", obj("locked", true), false},
		"flag, expired":                   {"flag", obj("locked", true, "lockedAt", long, "note", "mine"), true},
		"flag, held":                      {"flag", obj("locked", true, "lockedAt", time.Now()), false},
		"value, nothing":                  {"value", obj("note", "mine"), true},
		"value, expired":                  {"value", obj("value", "v", "ttl", 10, "obtained_at", long), true},
		"value, expired, part of seconds": {"value", obj("value", "v", "ttl", 10.5, "obtained_at", long), true},
		"value, never was":                {"value", obj("value", "v", "ttl", -10, "obtained_at", time.Now()), true},
		"value, without ttl":              {"value", obj("value", "v", "obtained_at", long), false},
		"value, without a date":           {"value", obj("value", "v", "ttl", 10), false},
		"value, text like an expression":  {"value", obj("value", "$value", "ttl", int64(7200), "obtained_at", long), false},
	} {
		t.Run(name, func(t *testing.T) {
			coll := newCollection(t)
			if _, err := coll.InsertOne(t.Context(), append(named("r"), c.doc...)); err != nil {
				t.Fatal(err)
			}
			for _, l := range layouts {
				if l.name != c.layout {
					continue
				}
				s := start(t, l.open(coll))
				_, err := s.Acquire(t.Context(), ask.Request("r", "a"))
				if c.free && err != nil || !c.free && !errors.Is(err, driver.ErrHeld) {
					t.Errorf("acquire: error %v; free: %v", err, c.free)
				}
				all := list(t, s, driver.Filter{})
				if len(all) != 1 || all[0].HoldID.IsZero() == c.free {
					t.Errorf("list shows %+v", all)
				}
				note, _ := raw(t, coll, "r").Lookup("note").StringValueOK()
				if has := slices.Contains(c.doc, bson.E{Key: "note", Value: "mine"}); has != (note == "mine") {
					t.Error("additional fields of the document are gone")
				}
			}
		})
	}
}
