package mongolock_test

import (
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// A damaged document is a named error for all requests, and does not change by a byte.
func TestDamage(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	past := time.Now().Add(-time.Hour)
	for name, damage := range map[string]bson.D{
		"exclusive is a text":           obj("exclusive", "free"),
		"exclusive is an array":         obj("exclusive", bson.A{}),
		"acquired is a text":            obj("exclusive.acquired", "yes"),
		"acquired is a number":          obj("exclusive.acquired", 1),
		"lockId is a number":            obj("exclusive.lockId", 5),
		"lockId is empty":               obj("exclusive.lockId", ""),
		"lockId is null":                obj("exclusive.lockId", nil),
		"expiresAt is a text":           obj("exclusive.expiresAt", "soon"),
		"expiresAt is a number":         obj("exclusive.expiresAt", 1),
		"expiresAt is before 1970":      obj("exclusive.expiresAt", bson.DateTime(-1)),
		"shared is a text":              obj("shared", "none"),
		"locks is a document":           obj("shared.locks", obj("a", 1)),
		"locks is a text":               obj("shared.locks", "none"),
		"a lock is a text":              obj("shared.locks", bson.A{"lock"}),
		"a lock without lockId":         obj("shared.locks", bson.A{obj("expiresAt", past)}),
		"a lock is null":                obj("shared.locks", bson.A{nil, obj("lockId", "b", "expiresAt", nil)}),
		"a lockId is a document":        obj("shared.locks", bson.A{obj("lockId", obj("a", 1), "expiresAt", past)}),
		"a lockId is an array":          obj("shared.locks", bson.A{obj("lockId", bson.A{"b"}), obj("lockId", "b")}),
		"a lockId is true":              obj("shared.locks", bson.A{obj("lockId", "b"), obj("lockId", true)}),
		"a lockId is null":              obj("shared.locks", bson.A{obj("lockId", "b"), obj("lockId", nil, "expiresAt", past)}),
		"an end is a text":              obj("shared.locks", bson.A{obj("lockId", "b", "end", "soon"), obj("lockId", "c", "end", past)}),
		"an end is true":                obj("shared.locks", bson.A{obj("lockId", "b", "end", true), obj("lockId", "c", "end", past)}),
		"an end is an array":            obj("shared.locks", bson.A{obj("lockId", "b", "end", bson.A{past})}),
		"an end is beyond reach":        obj("shared.locks", bson.A{obj("lockId", "b", "end", bson.DateTime(253_370_764_800_001))}),
		"an expired one without lockId": obj("exclusive.lockId", 7, "exclusive.expiresAt", past),
		"fence is a text":               obj("fence", "7"),
		"fence is an array":             obj("fence", bson.A{7}),
	} {
		t.Run(name, func(t *testing.T) {
			ref := ask.Granted(t, s, ask.Request(name, "a"))
			if _, err := coll.UpdateOne(t.Context(), named(name), obj("$set", damage)); err != nil {
				t.Fatal(err)
			}
			before := raw(t, coll, name)
			ask.Damaged(t, s, ref)
			if after := raw(t, coll, name); after.String() != before.String() {
				t.Errorf("the document was\n%v\nand is\n%v", before, after)
			}
		})
	}
}

// With a damaged queue, the store decides nothing and changes nothing, but lets a holder
// release its hold.
func TestDamagedQueue(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	for name, damage := range map[string]any{"text": "none", "document": obj("a", 1), "number": 1} {
		t.Run(name, func(t *testing.T) {
			ref := ask.Granted(t, s, ask.Request(name, "a"))
			if _, err := coll.UpdateOne(t.Context(), named(name), obj("$set", obj("waiters", damage))); err != nil {
				t.Fatal(err)
			}
			before := raw(t, coll, name)
			damaged := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, driver.ErrDamaged) {
					t.Errorf("%s: error %v", what, err)
				}
			}
			_, err := s.Acquire(t.Context(), ask.Request(name, "b"))
			damaged("acquire", err)
			_, err = s.Acquire(t.Context(), at(ask.Request(name, "b"), 1))
			damaged("acquire with a place", err)
			qs := []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}, {HoldRef: driver.HoldRef{Resource: "none", LockID: "a"}, TTL: time.Hour}}
			for _, qs := range [][]driver.RenewRequest{qs, qs[:1]} {
				rs, err := s.Renew(t.Context(), qs)
				if err != nil {
					t.Fatal(err)
				}
				damaged("renewal", rs[0].Err)
			}
			rs, err := s.Release(t.Context(), []driver.ReleaseRequest{leaving(name, 1)})
			if err != nil {
				t.Fatal(err)
			}
			damaged("end of a place", rs[0].Err)
			if after := raw(t, coll, name); after.String() != before.String() {
				t.Errorf("the document was\n%v\nand is\n%v", before, after)
			}
			release(t, s, true, ref)
		})
	}
}

// Old documents with fewer fields, and documents with additional ones, are accepted.
func TestUnderstood(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	for name, doc := range map[string]bson.D{
		"nothing":            {},
		"free":               obj("exclusive", obj("acquired", false)),
		"free, all null":     obj("exclusive", nobody, "shared", obj("count", 0, "locks", bson.A{})),
		"nulls":              obj("exclusive", nil, "shared", nil, "fence", nil, "touched", nil, "waiters", nil),
		"count too high":     obj("exclusive", nobody, "shared", obj("count", 3, "locks", bson.A{})),
		"count is a text":    obj("exclusive", nobody, "shared", obj("count", "3", "locks", nil)),
		"fence in a shell":   obj("fence", 7.0, "touched", 7.0),
		"expired, of others": obj("exclusive", obj("lockId", "old", "acquired", true, "expiresAt", bson.DateTime(1000))),
		"odd details": obj("exclusive", obj(
			"lockId", "old", "owner", 7, "createdAt", "once", "acquired", true, "expiresAt", bson.DateTime(1000))),
		"more": obj("note", "mine", "shared", obj("count", 0, "locks", bson.A{}, "note", "mine")),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := coll.InsertOne(t.Context(), append(named(name), doc...)); err != nil {
				t.Fatal(err)
			}
			release(t, s, true, ask.Granted(t, s, ask.Shared(ask.Request(name, "a"), 0)))
			ref := ask.Granted(t, s, ask.Request(name, "a"))
			got := raw(t, coll, name)
			if n, ok := got.Lookup("shared", "count").AsInt64OK(); !ok || n != 0 {
				t.Errorf("count is %v", got.Lookup("shared", "count"))
			}
			if name == "more" && (got.Lookup("note").StringValue() != "mine" || got.Lookup("shared", "note").StringValue() != "mine") {
				t.Errorf("the fields of others are gone: %v", got)
			}
			release(t, s, true, ref)
		})
	}
}

// A hold may have a note, waits, of what its holder waited for. It is ignored.
func TestOldNotes(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	for name, note := range map[string]any{
		"note": obj("resource", "q", "mode", "shared", "limit", int64(2), "placeId", driver.PlaceID{1}.String(), "since", time.Now()),
		"text": "q",
	} {
		for field, q := range map[string]driver.AcquireRequest{
			"exclusive": ask.Request(name+", exclusive", "a"), "shared.locks.0": ask.Shared(ask.Request(name+", shared", "a"), 2),
		} {
			t.Run(q.Resource, func(t *testing.T) {
				ref := ask.Granted(t, s, q)
				old(t, coll, named(q.Resource), obj("$set", obj(field+".waits", note)))
				if again := ask.Granted(t, s, q); again != ref {
					t.Errorf("a repeat was granted %+v, want %+v", again, ref)
				}
				if e := ask.Refused(t, s, ask.Request(q.Resource, "b")); len(e.Holders) != 1 || e.Holders[0].Ref() != ref {
					t.Errorf("held by %+v", e.Holders)
				}
				renew(t, s, []driver.RenewRequest{{HoldRef: ref, TTL: 3 * time.Hour}}, -1)
				if st := listed(t, s, q.Resource); st.Ref() != ref || st.Left < 2*time.Hour {
					t.Errorf("list shows %+v", st)
				}
				release(t, s, true, ref)
			})
		}
	}
}
