package mongolock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// old does what programs with mongo-lock do.
func old(t testing.TB, coll *mongo.Collection, filter, update bson.D) (done bool) {
	t.Helper()
	res, err := coll.UpdateOne(t.Context(), filter, update)
	if err != nil {
		t.Fatal(err)
	}
	return res.ModifiedCount == 1
}

func oldLock(lockID string, expires any) bson.D {
	return obj(
		"_id", bson.NewObjectID(), "lockId", lockID, "owner", "ann", "host", "h1", "comment", "c",
		"createdAt", time.Now(), "renewedAt", nil, "expiresAt", expires, "acquired", true,
	)
}

// oldXLock locks a resource that is free, or expired by this machine's clock.
func oldXLock(t testing.TB, coll *mongo.Collection, resource, lockID string, expires any) bool {
	t.Helper()
	return old(t, coll, obj("resource", resource, "shared.count", 0, "$or", bson.A{
		obj("exclusive.acquired", false), obj("exclusive.expiresAt", obj("$lte", time.Now())),
	}), obj("$set", obj("exclusive", oldLock(lockID, expires), "shared", obj("count", 0, "locks", bson.A{}))))
}

func oldSLock(t testing.TB, coll *mongo.Collection, resource, lockID string, expires any) bool {
	t.Helper()
	return old(t, coll, obj("resource", resource, "exclusive.acquired", false),
		obj("$inc", obj("shared.count", 1), "$push", obj("shared.locks", oldLock(lockID, expires))))
}

// A takeover delay also counts for old clients, because they check expiresAt.
func TestOldClientsWaitForTakeoverDelay(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	q := ask.Request("r", "a")
	q.TTL, q.TakeoverDelay = time.Millisecond, time.Hour
	ref := ask.Granted(t, s, q)
	for {
		rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		if errors.Is(rs[0].Err, driver.ErrLost) {
			break
		}
	}
	if oldXLock(t, coll, "r", "old", nil) {
		t.Error("an old client was granted it in its takeover delay")
	}
}

// An end that Holdfast did not write belongs to a new hold. References to the former hold
// stop matching, and never match again.
func TestForeignEnd(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	for _, mode := range []string{"exclusive", "shared"} {
		t.Run(mode, func(t *testing.T) {
			q, field := ask.Request(mode, "a"), "exclusive.expiresAt"
			if mode == "shared" {
				q, field = ask.Shared(q, 0), "shared.locks.0.expiresAt"
			}
			ref := ask.Granted(t, s, q)
			old(t, coll, named(mode), obj("$set", obj(field, time.Now().Add(2*time.Hour))))
			check := func() {
				t.Helper()
				renew(t, s, []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}}, 0)
				release(t, s, false, ref)
				var held *driver.HeldError
				if _, err := s.Acquire(t.Context(), q); !errors.As(err, &held) || !held.BySelf {
					t.Errorf("repeat of the acquire: error %v, want held by itself", err)
				}
			}
			check()
			any := driver.HoldRef{Resource: mode, LockID: "a"}
			renew(t, s, []driver.RenewRequest{{HoldRef: any, TTL: 3 * time.Hour}}, -1)
			check()
			for st, err := range s.List(t.Context(), driver.Filter{LockID: "a", Resource: mode}) {
				if err != nil || !st.HoldID.IsZero() || st.Left <= 2*time.Hour {
					t.Errorf("list shows %+v, error %v", st, err)
				}
			}
			release(t, s, true, any)
			ask.Granted(t, s, ask.Request(mode, "b"))
		})
	}
}

// A release reports that the lock ID still has the resource if an old client has renewed
// the hold, or acquired the resource again.
func TestRemains(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	x, sh := ask.Granted(t, s, ask.Request("x", "a")), ask.Granted(t, s, ask.Shared(ask.Request("s", "a"), 0))
	gone := ask.Granted(t, s, ask.Request("gone", "a"))
	release(t, s, true, gone)
	later := time.Now().Add(2 * time.Hour)
	old(t, coll, named("x"), obj("$set", obj("exclusive.expiresAt", later)))
	old(t, coll, named("s"), obj("$set", obj("shared.locks.0.expiresAt", later)))
	check := func(found bool, refs ...driver.HoldRef) {
		t.Helper()
		qs := make([]driver.ReleaseRequest, len(refs))
		for i, ref := range refs {
			qs[i].HoldRef = ref
		}
		rs, err := s.Release(t.Context(), qs)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if remains := !found && refs[i] != gone; r.Err != nil || r.Found != found || r.Remains != remains {
				t.Errorf("%+v: %+v, want Remains: %v", refs[i], r, remains)
			}
		}
	}
	check(false, x)
	check(false, sh)
	check(false, gone)
	check(false, x, gone, sh)
	check(true, driver.HoldRef{Resource: "x", LockID: "a"})
	// A successor of Holdfast's with the same lock ID is another hold, and is not
	// reported.
	ask.Granted(t, s, ask.Request("x", "a"))
	rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: x}})
	if err != nil || rs[0] != (driver.ReleaseResult{}) {
		t.Errorf("%+v, error %v", rs, err)
	}
}

// Expired locks of old clients block nobody and are swept; the count is right.
func TestOldClientsExpire(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	past := time.Now().Add(-time.Hour)
	for _, r := range []string{"x", "s"} {
		release(t, s, true, ask.Granted(t, s, ask.Request(r, "a")))
	}
	oldXLock(t, coll, "x", "old", past)
	release(t, s, true, ask.Granted(t, s, ask.Shared(ask.Request("x", "a"), 1)))
	if !oldSLock(t, coll, "x", "old", past) || !oldSLock(t, coll, "s", "old", past) || !oldSLock(t, coll, "s", "old too", past) {
		t.Fatal("an old client was refused to share a free resource")
	}
	ref := ask.Granted(t, s, ask.Shared(ask.Request("s", "a"), 1))
	if n := raw(t, coll, "s").Lookup("shared", "count").AsInt64(); n != 1 {
		t.Errorf("count is %d", n)
	}
	release(t, s, true, ref)
	if got, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil || got != (driver.SweepResult{Holds: 1}) {
		t.Errorf("sweep: %+v, error %v", got, err)
	}
	if !oldXLock(t, coll, "x", "old", nil) || !oldXLock(t, coll, "s", "old", nil) {
		t.Error("an old client was refused a swept resource")
	}
}

// Holds of old clients are shown, and waiters are woken when they are released.
func TestOldReleaseWakes(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	if !s.Traits().Notifies {
		t.Skip("this deployment has no change streams")
	}
	release(t, s, true, ask.Granted(t, s, ask.Request("r", "a")))
	oldXLock(t, coll, "r", "old", nil)
	e := ask.Refused(t, s, ask.Request("r", "b"))
	if h := e.Holders[0]; h.LockID != "old" || h.Owner != "ann" || !h.HoldID.IsZero() || h.Token != 0 || h.Left != driver.Forever {
		t.Errorf("held by %+v", h)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	signals, err := s.Watch(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	old(t, coll, named("r"), obj("$set", obj("exclusive", nobody)))
	select {
	case <-signals:
	case <-ctx.Done():
		t.Error("no signal came")
	}
}

// After an old client has renewed a lock, it no longer has a limit that others must
// match, whatever is left of the fields that Holdfast wrote.
func TestOldRenewalForgetsLimit(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	ask.Granted(t, s, ask.Shared(ask.Request("r", "a"), 2))
	var held *driver.HeldError
	if _, err := s.Acquire(t.Context(), ask.Shared(ask.Request("r", "b"), 3)); !errors.As(err, &held) || !held.LimitDiffers {
		t.Fatalf("error %v, want that the limit differs", err)
	}
	old(t, coll, named("r"), obj("$set", obj("shared.locks.0.expiresAt", time.Now().Add(2*time.Hour))))
	b := ask.Granted(t, s, ask.Shared(ask.Request("r", "b"), 3))
	release(t, s, true, b)
	renew(t, s, []driver.RenewRequest{{HoldRef: driver.HoldRef{Resource: "r", LockID: "a"}, TTL: 3 * time.Hour}}, -1)
	ask.Granted(t, s, ask.Shared(ask.Request("r", "b"), 3))
}
