package dropin_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

func TestStatus(t *testing.T) {
	f := newFixture(t)
	want(t, f.status(lock.Filter{}))
	john := lock.LockDetails{Owner: "john", Host: "host.name", Comment: "hm", TTL: 3600}
	take := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	take(f.XLock(ctx, "r1", "a", john))
	take(f.SLock(ctx, "r2", "a", john, -1))
	take(f.SLock(ctx, "r2", "b", lock.LockDetails{Owner: "smith"}, -1))
	f.pass(10 * time.Millisecond)
	between := f.clock.Now()
	f.pass(10 * time.Millisecond)
	f.s("r2", "c", 7200, -1)
	take(f.XLock(ctx, "r3", "b", lock.LockDetails{Owner: "smith"}))
	f.s("r4", "c", 7200, -1)
	if !f.clock.Set() {
		t.Log("the times that are compared come from two clocks")
	}

	for name, c := range map[string]struct {
		f    lock.Filter
		want []string
	}{
		"nothing":       {lock.Filter{}, []string{"r4/c", "r3/b", "r2/c", "r2/b", "r2/a", "r1/a"}},
		"Resource":      {lock.Filter{Resource: "r2"}, []string{"r2/c", "r2/b", "r2/a"}},
		"LockId":        {lock.Filter{LockId: "b"}, []string{"r3/b", "r2/b"}},
		"Owner":         {lock.Filter{Owner: "smith"}, []string{"r3/b", "r2/b"}},
		"CreatedAfter":  {lock.Filter{CreatedAfter: between}, []string{"r4/c", "r3/b", "r2/c"}},
		"CreatedBefore": {lock.Filter{CreatedBefore: between}, []string{"r2/b", "r2/a", "r1/a"}},
		"both times":    {lock.Filter{CreatedBefore: between, CreatedAfter: between}, nil},
		"an hour":       {lock.Filter{CreatedBefore: between.Add(time.Hour), CreatedAfter: between.Add(-time.Hour), LockId: "a"}, []string{"r2/a", "r1/a"}},
		"TTLgte":        {lock.Filter{TTLgte: 3700}, []string{"r4/c", "r2/c"}},
		"TTLlt, more":   {lock.Filter{TTLlt: 5000}, []string{"r2/a", "r1/a"}},
		"three":         {lock.Filter{TTLlt: 5000, Resource: "r1", LockId: "a"}, []string{"r1/a"}},
		"none of those": {lock.Filter{Resource: "r1", LockId: "b"}, nil},
		"unknown":       {lock.Filter{Owner: "$exclusive.owner"}, nil},
	} {
		t.Run(name, func(t *testing.T) { want(t, f.status(c.f), c.want...) })
	}
	l := f.status(lock.Filter{Resource: "r1"})[0]
	if l.Type != lock.LOCK_TYPE_EXCLUSIVE || l.Owner != "john" || l.Host != "host.name" || l.Comment != "hm" ||
		l.RenewedAt != nil || l.TTL > 3600 || l.TTL < 3500 || !l.CreatedAt.Before(between) {
		t.Errorf("status %+v", l)
	}
	if l := f.status(lock.Filter{LockId: "c", Resource: "r4"})[0]; l.Type != lock.LOCK_TYPE_SHARED || l.Owner != "" || l.Host != "" {
		t.Errorf("status %+v", l)
	}
	if l := f.status(lock.Filter{Resource: "r3"})[0]; l.TTL >= 0 {
		t.Errorf("without a TTL: %+v", l)
	}
}

// An exclusive lock is not shown beside a matching shared one. Both can be in one
// document if an old client shares an expired resource.
func TestStatusOfOneDocument(t *testing.T) {
	f := newFixture(t)
	f.x("r", "a", 1)
	_, err := f.coll.UpdateOne(t.Context(), bson.M{"resource": "r"}, bson.M{"$set": bson.M{"shared": bson.M{
		"count": 1, "locks": []bson.M{{"lockId": "b", "owner": "ann", "acquired": true, "expiresAt": nil}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, f.status(lock.Filter{LockId: "b"}), "r/b")
	want(t, f.status(lock.Filter{Owner: "ann"}), "r/b")
	want(t, f.status(lock.Filter{LockId: "a"}), "r/a")
	want(t, must[[]lock.LockStatus](t)(f.Unlock(t.Context(), "b")), "r/b")
	want(t, f.status(lock.Filter{}), "r/a")
}

// Expired locks are shown until they are removed.
func TestStatusOfExpired(t *testing.T) {
	f := newFixture(t)
	f.x("r1", "a", 1)
	f.s("r2", "a", 1, -1)
	f.s("r2", "b", 100, -1)
	f.pass(3 * time.Second)
	for _, filter := range []lock.Filter{{LockId: "a"}, {TTLlt: 1}} {
		got := f.status(filter)
		want(t, got, "r2/a", "r1/a")
		for _, l := range got {
			if l.TTL != 0 {
				t.Errorf("status %+v", l)
			}
		}
	}
	f.x("r1", "c", 0)
	want(t, f.status(lock.Filter{TTLlt: 1}), "r2/a")
}
