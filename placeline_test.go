package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// The first waiters for whom the queue has no place do not leave the resource idle for
// long.
func TestFullQueueEmptiesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "r", nil)
		ctx, cancel := context.WithCancel(t.Context())
		for range 64 {
			locking(ctx, newClient(t, store, nil), "r", fairly(""))
		}
		time.Sleep(time.Second)
		last := locking(t.Context(), newClient(t, store, nil), "r", fairly("last"))
		time.Sleep(100 * time.Millisecond)
		cancel()
		time.Sleep(time.Millisecond)
		h, idle := handOver(t, h, last)
		if idle > 3*time.Second {
			t.Errorf("the resource was free for %v", idle)
		}
		unlock(t, h)
	})
}

// Each waiter gets its own answer: only the one that had the place has a position.
func TestOnlyThePlaceHasPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "r", nil)
		first := locking(t.Context(), newClient(t, store, nil), "r", fairly("first"))
		synctest.Wait()
		c := newClient(t, store, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		placed := locking(ctx, c, "r", fairly(""))
		synctest.Wait()
		behind := locking(ctx, c, "r", fairly(""))
		a, b := heldError(t, (<-placed).err), heldError(t, (<-behind).err)
		if a.Position != 1 || b.Position != driver.NoPlace {
			t.Errorf("positions %d and %d", a.Position, b.Position)
		}
		if len(a.Ahead) != 1 || len(b.Ahead) != 1 || &a.Ahead[0] == &b.Ahead[0] {
			t.Errorf("ahead: %v and %v", a.Ahead, b.Ahead)
		}
		unlock(t, h)
		unlock(t, (<-first).hold)
	})
}
