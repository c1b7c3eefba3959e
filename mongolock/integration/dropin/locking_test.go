package dropin_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

func TestXLock(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.x("r1", "a", 0)
	f.x("r2", "a", 0)
	refused(t, f.XLock(ctx, "r1", "a", lock.LockDetails{})) // its own lock
	refused(t, f.XLock(ctx, "r1", "b", lock.LockDetails{}))
	refused(t, f.SLock(ctx, "r1", "a", lock.LockDetails{}, -1))
	refused(t, f.SLock(ctx, "r1", "b", lock.LockDetails{}, -1))
	f.counted("r1", 0)
	f.s("r3", "a", 0, -1)
	refused(t, f.XLock(ctx, "r3", "a", lock.LockDetails{}))
	refused(t, f.XLock(ctx, "r3", "b", lock.LockDetails{}))
	f.counted("r3", 1)
}

func TestSLock(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	refused(t, f.SLock(ctx, "never locked", "a", lock.LockDetails{}, 0))
	for i := range 5 {
		f.s("r", fmt.Sprint("no limit ", i), 0, -1)
	}
	refused(t, f.SLock(ctx, "r", "a", lock.LockDetails{}, 0))
	refused(t, f.SLock(ctx, "r", "a", lock.LockDetails{}, 4))
	refused(t, f.SLock(ctx, "r", "a", lock.LockDetails{}, 5))
	refused(t, f.SLock(ctx, "r", "no limit 2", lock.LockDetails{}, -1)) // has one
	f.counted("r", 5)
	f.s("r", "a", 0, 6)
	f.s("r", "b", 0, -7)
	f.counted("r", 7)
	f.s("other", "a", 0, 1) // a lockId can have one lock of each resource
}

// An expired lock neither blocks nor counts, even if it was not purged.
func TestExpiredDoesNotBlock(t *testing.T) {
	f := newFixture(t)
	for _, r := range []string{"x then x", "x then s"} {
		f.x(r, "a", 1)
	}
	for _, r := range []string{"s then x", "s then s"} {
		f.s(r, "a", 1, -1)
		f.s(r, "b", 1, -1)
	}
	f.s("one lives", "a", 1, -1)
	f.s("one lives", "b", 100, -1)
	f.pass(time.Second)
	f.x("x then x", "a", 0) // even with the same lockId
	f.s("x then s", "b", 0, 1)
	f.x("s then x", "c", 0)
	f.s("s then s", "a", 0, 1)
	refused(t, f.SLock(t.Context(), "one lives", "c", lock.LockDetails{}, 1))
	f.s("one lives", "c", 0, 2)
	for r, n := range map[string]int{"x then x": 0, "x then s": 1, "s then x": 0, "s then s": 1, "one lives": 2} {
		f.counted(r, n)
	}
}

// The server's clock decides, here a clock that is years ahead of the clients'.
func TestServerClock(t *testing.T) {
	f := newFixture(t)
	if !f.clock.Set() {
		t.Skip("the clock of a real server cannot be set")
	}
	f.pass(5 * 365 * 24 * time.Hour)
	f.x("r", "a", 10)
	refused(t, f.XLock(t.Context(), "r", "b", lock.LockDetails{}))
	f.pass(9 * time.Second)
	renewed := must[[]lock.LockStatus](t)(f.Renew(t.Context(), "a", 5))
	if len(renewed) != 1 || renewed[0].TTL != 5 || !renewed[0].CreatedAt.Equal(f.clock.Now().Add(-9*time.Second)) ||
		renewed[0].RenewedAt == nil || !renewed[0].RenewedAt.Equal(f.clock.Now()) {
		t.Errorf("renewed %+v at %v", renewed, f.clock.Now())
	}
	f.pass(5 * time.Second)
	f.x("r", "b", 0)
}

// The first shared locks of a resource are all granted while there is room, although one
// of them creates the document.
func TestFirstSharedLocks(t *testing.T) {
	f := newFixture(t)
	for round := range 20 {
		const acquirers, most = 8, 5
		resource := fmt.Sprint("new ", round)
		var granted atomic.Int64
		var wait sync.WaitGroup
		for i := range acquirers {
			wait.Go(func() {
				err := f.SLock(t.Context(), resource, fmt.Sprint("acquirer ", i), lock.LockDetails{TTL: 100}, most)
				if err == nil {
					granted.Add(1)
				} else {
					refused(t, err)
				}
			})
		}
		wait.Wait()
		if n := granted.Load(); n != most {
			t.Errorf("%d were granted with a limit of %d", n, most)
		}
		f.counted(resource, most)
	}
}

// As with mongo-lock, only the caller's own maxConcurrent counts. A Client of Holdfast
// beside these callers gets the limit that it requests.
func TestOwnMaxConcurrent(t *testing.T) {
	f := newFixture(t)
	f.s("r", "a", 0, 1)
	f.s("r", "b", 0, 5)
	f.s("r", "c", 0, -1)
	refused(t, f.SLock(t.Context(), "r", "d", lock.LockDetails{}, 3))
	f.s("r", "d", 0, 4)
	if v := f.raw("r").Lookup("shared", "locks", "0", "limit"); v.Type != bson.TypeNull {
		t.Errorf("the limit is stored: %v", v)
	}
}
