package dropin_test

import (
	"testing"
	"time"

	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

func TestUnlock(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	want(t, must[[]lock.LockStatus](t)(f.Unlock(ctx, "a"))) // nothing exists, not even a collection
	err := f.XLock(ctx, "r1", "a", lock.LockDetails{Owner: "ann", Host: "h1", Comment: "c", TTL: 100})
	if err != nil {
		t.Fatal(err)
	}
	f.s("r4", "a", 0, -1)
	f.x("r3", "b", 0)
	f.s("r2", "b", 0, -1)
	f.s("r2", "a", 0, -1)
	before := f.status(lock.Filter{LockId: "a"})
	unlocked := must[[]lock.LockStatus](t)(f.Unlock(ctx, "a"))
	want(t, unlocked, "r2/a", "r4/a", "r1/a") // some may have been acquired in the same millisecond
	for i := range unlocked {
		if unlocked[i].TTL > before[i].TTL || unlocked[i].TTL < before[i].TTL-60 {
			t.Errorf("the TTL was %d and is returned as %d", before[i].TTL, unlocked[i].TTL)
		}
		unlocked[i].TTL = before[i].TTL
		if unlocked[i] != before[i] {
			t.Errorf("unlocked %+v, which was %+v", unlocked[i], before[i])
		}
	}
	if l := unlocked[2]; l.Type != lock.LOCK_TYPE_EXCLUSIVE || l.Owner != "ann" || l.Host != "h1" || l.Comment != "c" ||
		l.RenewedAt != nil || l.CreatedAt.IsZero() || l.TTL > 100 || l.TTL < 40 {
		t.Errorf("unlocked %+v", l)
	}
	want(t, f.status(lock.Filter{}), "r2/b", "r3/b")
	f.counted("r2", 1)
	f.counted("r4", 0)
	want(t, must[[]lock.LockStatus](t)(f.Unlock(ctx, "a")))
	want(t, must[[]lock.LockStatus](t)(f.Unlock(ctx, "b")), "r2/b", "r3/b")
	f.x("r2", "c", 0)
}

// Expired locks are unlocked as well, unless another lockId has the resource now.
func TestUnlockExpired(t *testing.T) {
	f := newFixture(t)
	f.x("r1", "a", 1)
	f.x("r2", "a", 1)
	f.pass(time.Second)
	f.x("r1", "b", 0)
	want(t, must[[]lock.LockStatus](t)(f.Unlock(t.Context(), "a")), "r2/a")
	want(t, f.status(lock.Filter{}), "r1/b")
}

func TestRenew(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.s("r4", "other", 3600, -1)
	f.x("r1", "a", 3600)
	f.s("r4", "a", 3600, -1)
	f.s("r2", "a", 0, -1) // it has no TTL, and gets one
	f.x("r3", "b", 0)
	for _, ttl := range []uint{7200, 60, 100 * 365 * 86400, 600} { // both longer and shorter ones
		renewed := must[[]lock.LockStatus](t)(f.Renew(ctx, "a", ttl))
		want(t, renewed, "r2/a", "r4/a", "r1/a")
		for _, ls := range [][]lock.LockStatus{renewed, f.status(lock.Filter{LockId: "a"})} {
			for _, l := range ls {
				if l.TTL > int64(ttl) || l.TTL < int64(ttl)-30 || l.RenewedAt == nil || l.RenewedAt.Before(l.CreatedAt) {
					t.Errorf("renewed for %d: %+v", ttl, l)
				}
			}
		}
	}
	for _, l := range append(f.status(lock.Filter{LockId: "other"}), f.status(lock.Filter{LockId: "b"})...) {
		if l.RenewedAt != nil || l.TTL > 0 && l.TTL < 3000 {
			t.Errorf("not renewed: %+v", l)
		}
	}
	f.counted("r4", 2)
}

// Renew requires a second left on all locks, and otherwise renews none.
func TestRenewNotFound(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	check := func(lockID string) {
		t.Helper()
		renewed, err := f.Renew(ctx, lockID, 7200)
		notFound(t, err)
		want(t, renewed)
	}
	check("a")
	f.x("r1", "a", 3600)
	check("b")
	f.s("r2", "a", 2, -1)
	if f.clock.Set() {
		f.pass(time.Second) // exactly a second left
		want(t, must[[]lock.LockStatus](t)(f.Renew(ctx, "a", 2)), "r2/a", "r1/a")
		f.pass(time.Millisecond)
	}
	f.pass(time.Second)
	check("a") // one has less than a second left
	f.pass(time.Second)
	check("a") // one has expired
	for _, l := range f.status(lock.Filter{LockId: "a"}) {
		if l.TTL > 3600 {
			t.Errorf("renewed: %+v", l)
		}
	}
	// Now b is the holder.
	f.x("r2", "b", 0)
	if f.clock.Set() {
		check("a") // r1 was renewed for 2 s, which are over
		return
	}
	want(t, must[[]lock.LockStatus](t)(f.Renew(ctx, "a", 10)), "r1/a")
}

// Renew with 0 ends the locks, as it does in mongo-lock.
func TestRenewWithZeroTTL(t *testing.T) {
	f := newFixture(t)
	f.x("r", "a", 100)
	for _, l := range must[[]lock.LockStatus](t)(f.Renew(t.Context(), "a", 0)) {
		if l.TTL != 0 {
			t.Errorf("renewed: %+v", l)
		}
	}
	f.pass(time.Millisecond)
	f.x("r", "b", 0)
}

// More locks than one request can contain.
func TestManyLocks(t *testing.T) {
	f := newFixture(t)
	const n = 501
	for i := range n {
		f.x(string(rune('一'+i)), "a", 100)
	}
	if got := len(must[[]lock.LockStatus](t)(f.Renew(t.Context(), "a", 200))); got != n {
		t.Errorf("%d renewed, want %d", got, n)
	}
	if got := len(must[[]lock.LockStatus](t)(f.Unlock(t.Context(), "a"))); got != n {
		t.Errorf("%d unlocked, want %d", got, n)
	}
}
