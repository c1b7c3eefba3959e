package holdfast_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// hanging returns a store that can hold up one acquire until arrive is closed. hang waits
// for the next acquire, and returns when that is held up.
func hanging(t *testing.T, store *memlock.Store) (f *drivertest.FaultStore, hang func(), arrive chan struct{}) {
	t.Helper()
	var armed atomic.Bool
	arrive = make(chan struct{})
	f = faulty(t, store, func(c drivertest.Call) drivertest.Fault {
		if c.Op == drivertest.Acquire && armed.CompareAndSwap(true, false) {
			return drivertest.Fault{HoldRequest: arrive}
		}
		return drivertest.Fault{}
	})
	return f, func() {
		armed.Store(true)
		for armed.Load() {
			time.Sleep(time.Millisecond)
		}
	}, arrive
}

// One request that gets no answer costs a fair waiter no place.
func TestHungRequestKeepsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f, hang, arrive := hanging(t, store)
		holder := newClient(t, store, nil)
		h := lock(t, holder, "r", nil)
		first := locking(t.Context(), newClient(t, f, nil), "r", fairly("first"))
		time.Sleep(time.Second)
		second := locking(t.Context(), newClient(t, store, nil), "r", fairly("second"))
		time.Sleep(10 * time.Second)
		hang()
		for range 15 {
			time.Sleep(time.Second)
			mustWait(t, holder, "r", "first", "second")
		}
		unlock(t, h)
		for _, next := range []<-chan result{first, second} {
			unlock(t, granted(t, next))
		}
		close(arrive)
	})
}

// An attempt that arrives when its waiter has been granted the lock, and has released it,
// takes a place. It is cleaned up.
func TestLateAttemptLeavesNoPlace(t *testing.T) {
	for name, granted := range map[string]bool{"granted": true, "given up": false} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			f, hang, arrive := hanging(t, store)
			holder := newClient(t, store, nil)
			h := lock(t, holder, "r", nil)
			ctx, cancel := context.WithCancel(t.Context())
			w := locking(ctx, newClient(t, f, nil), "r", fairly("late"))
			time.Sleep(3 * time.Second)
			hang()
			if granted {
				time.Sleep(3 * time.Second) // until another attempt is made
				unlock(t, h)
				unlock(t, (<-w).hold)
				h = lock(t, holder, "r", nil)
			}
			cancel()
			if !granted {
				<-w
			}
			synctest.Wait()
			close(arrive)
			synctest.Wait()
			time.Sleep(time.Second)
			mustWait(t, holder, "r")
			unlock(t, h)
		})
	}
}

// Waiters for whom the queue has no place ask seldom, whether they are fair or not.
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
				t.Errorf("%v acquires a second", perSecond)
			}
			cancel()
			synctest.Wait()
			unlock(t, h)
		})
	}
}

// Fair readers that wait for a writer do not wait for each other.
func TestFairReadersTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 30
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "r", nil)
		waits := make([]<-chan result, readers)
		for i := range waits {
			c := newClient(t, store, nil)
			waits[i] = running(func() (*holdfast.Hold, error) {
				return c.RLock(t.Context(), "r", &holdfast.LockOptions{Fair: true})
			})
			synctest.Wait()
		}
		time.Sleep(31 * time.Second)
		released := time.Now()
		unlock(t, h)
		holds := make([]*holdfast.Hold, readers)
		for i, w := range waits {
			r := <-w
			if waited := r.at.Sub(released); r.err != nil || waited > 100*time.Millisecond {
				t.Errorf("reader %d was served after %v, error %v", i, waited, r.err)
			}
			holds[i] = r.hold
		}
		for _, h := range holds {
			unlock(t, h)
		}
	})
}
