package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// The first waiters beyond a full queue do not leave the resource idle for long.
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

// Waiters beyond a full queue ask seldom, fair or not.
func TestFullQueueIsQuiet(t *testing.T) {
	for name, fair := range map[string]bool{"fair": true, "plain": false} {
		inBubble(t, name, func(t *testing.T) {
			const clients = 200
			store := memlock.New(nil)
			f := faulty(t, store)
			h := lock(t, newClient(t, store, nil), "r", nil)
			ctx, cancel := context.WithCancel(t.Context())
			for range clients {
				c := newClient(t, f, nil)
				go func() { _, _ = c.Lock(ctx, "r", &holdfast.LockOptions{Fair: fair}) }()
			}
			time.Sleep(30 * time.Second)
			before := f.Calls(drivertest.Acquire)
			time.Sleep(100 * time.Second)
			if perSecond := float64(f.Calls(drivertest.Acquire)-before) / 100; perSecond > 64/2+clients/5 {
				t.Errorf("%v acquires per second", perSecond)
			}
			cancel()
			synctest.Wait()
			unlock(t, h)
		})
	}
}
