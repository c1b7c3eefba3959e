package dropin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/interop/oldmongolock"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

func (f *fixture) oldX(resource, lockID string, ttl time.Duration) {
	f.t.Helper()
	if err := f.old.XLock(f.t.Context(), resource, lockID, ttl); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) oldS(resource, lockID string, ttl time.Duration) {
	f.t.Helper()
	if err := f.old.SLock(f.t.Context(), resource, lockID, ttl, -1); err != nil {
		f.t.Fatal(err)
	}
}

// Locks of programs with mongo-lock are shown, renewed, unlocked and purged.
func TestLocksOfOldClients(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.oldX("r1", "a", time.Hour)
	f.pass(10 * time.Millisecond)
	f.oldS("r2", "a", time.Hour)
	f.pass(10 * time.Millisecond)
	f.s("r2", "a2", 0, -1)
	f.oldS("r2", "b", 0)
	refused(t, f.XLock(ctx, "r1", "a", lock.LockDetails{}))
	refused(t, f.SLock(ctx, "r2", "a", lock.LockDetails{}, -1))
	refused(t, f.SLock(ctx, "r2", "c", lock.LockDetails{}, 3))
	want(t, f.status(lock.Filter{LockId: "a"}), "r2/a", "r1/a")
	for _, ttl := range []uint{7200, 10} {
		for _, l := range must[[]lock.LockStatus](t)(f.Renew(ctx, "a", ttl)) {
			if l.TTL > int64(ttl) || l.TTL < int64(ttl)-5 || l.RenewedAt == nil {
				t.Errorf("renewed: %+v", l)
			}
		}
	}
	want(t, must[[]lock.LockStatus](t)(f.Renew(ctx, "b", 20)), "r2/b")
	want(t, must[[]lock.LockStatus](t)(f.Unlock(ctx, "b")), "r2/b")
	f.counted("r2", 2)
	f.purge()
	f.pass(10 * time.Second)
	f.purge("r2/a", "r1/a")
	f.counted("r2", 1)
	f.oldX("r1", "old", 0)
	want(t, must[[]lock.LockStatus](t)(f.Unlock(ctx, "old")), "r1/old")
	f.oldX("r1", "old", 0)
}

// Programs with mongo-lock show, renew and unlock locks of the drop-in.
func TestLocksForOldClients(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.x("r1", "a", 3600)
	f.pass(10 * time.Millisecond)
	f.s("r2", "a", 3600, -1)
	for _, err := range []error{
		f.old.XLock(ctx, "r1", "b", 0), f.old.SLock(ctx, "r1", "b", 0, -1),
		f.old.XLock(ctx, "r2", "b", 0), f.old.SLock(ctx, "r2", "b", 0, 1), f.old.SLock(ctx, "r2", "a", 0, -1),
	} {
		if !errors.Is(err, oldmongolock.ErrAlreadyLocked) {
			t.Errorf("an old client beside a lock of the drop-in: %v", err)
		}
	}
	f.oldS("r2", "b", 0)
	f.counted("r2", 2)
	if err := f.old.Renew(ctx, "a", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	for _, l := range f.status(lock.Filter{LockId: "a"}) {
		if l.TTL > 10 || l.TTL < 5 || l.RenewedAt == nil {
			t.Errorf("renewed by an old client: %+v", l)
		}
	}
	want(t, must[[]lock.LockStatus](t)(f.Renew(ctx, "a", 20)), "r2/a", "r1/a")
	if shown := must[[]oldmongolock.Status](t)(f.old.Status(ctx, oldmongolock.Filter{LockID: "a"})); len(shown) != 2 {
		t.Errorf("an old client is shown %+v", shown)
	}
	f.pass(20*time.Second + time.Millisecond)
	if purged := must[[]oldmongolock.Status](t)(f.old.Purge(ctx)); len(purged) != 2 {
		t.Errorf("an old client purged %+v", purged)
	}
	want(t, f.status(lock.Filter{}), "r2/b")
	f.counted("r2", 1)
	f.oldX("r1", "c", 0)
	f.s("r2", "a", 0, 2)
	if unlocked := must[[]oldmongolock.Status](t)(f.old.Unlock(ctx, "a")); len(unlocked) != 1 {
		t.Errorf("an old client unlocked %+v", unlocked)
	}
	f.counted("r2", 1)
}

// A purge by the drop-in removes expired locks, which block old clients.
func TestPurgeForOldClients(t *testing.T) {
	f := newFixture(t)
	f.x("r1", "a", 1)
	f.s("r2", "b", 1, -1)
	f.pass(time.Second)
	if err := f.old.SLock(t.Context(), "r1", "old", 0, -1); !errors.Is(err, oldmongolock.ErrAlreadyLocked) {
		t.Fatalf("an old client was not refused a shared lock beside an expired one: %v", err)
	}
	if err := f.old.XLock(t.Context(), "r2", "old", 0); !errors.Is(err, oldmongolock.ErrAlreadyLocked) {
		t.Fatalf("an old client was not refused an expired shared lock: %v", err)
	}
	f.purge("r2/b", "r1/a")
	f.oldS("r1", "old", 0)
	f.oldX("r2", "old", 0)
}
