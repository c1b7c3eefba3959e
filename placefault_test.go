package holdfast_test

import (
	"context"
	"errors"
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
			r := <-next
			if r.err != nil {
				t.Fatal(r.err)
			}
			unlock(t, r.hold)
		}
		close(arrive)
	})
}

// An attempt that arrives when its waiter has been granted the lock, and has released it,
// takes a place. It is cleaned up.
func TestLateAttemptLeavesNoPlace(t *testing.T) {
	for name, granted := range map[string]bool{"granted": true, "given up": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// Waiters for whom the queue has no place ask seldom, whether they are fair or not.
func TestFullQueueIsQuiet(t *testing.T) {
	for name, fair := range map[string]bool{"fair": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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

// Only those who wait for each other get ErrDeadlock, and not who only waits for them,
// however late that one came.
func TestOnlyTheStuckGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		began := time.Now()
		type outcome struct {
			who string
			err error
			at  time.Duration
		}
		outcomes := make(chan outcome, 4)
		take := func(c *holdfast.Client, ctx context.Context, resource string, o *holdfast.LockOptions, shared bool) (*holdfast.Hold, error) {
			if shared {
				return c.RLock(ctx, resource, o)
			}
			return c.Lock(ctx, resource, o)
		}
		permit := &holdfast.LockOptions{Limit: 2}
		other, err := newClient(t, store, nil).RLock(t.Context(), "permits", permit)
		if err != nil {
			t.Fatal(err)
		}
		start := make(chan struct{})
		run := func(who, holds string, ho *holdfast.LockOptions, shared bool, after time.Duration, waits string, wo *holdfast.LockOptions, sharedWait bool) {
			c := newClient(t, store, &holdfast.Options{Owner: who})
			h, err := take(c, t.Context(), holds, ho, shared)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-start
				bound, done := h.Bind(t.Context())
				defer done()
				time.Sleep(after)
				w, err := take(c, bound, waits, wo, sharedWait)
				outcomes <- outcome{who, err, time.Since(began)}
				if w != nil {
					_ = w.Unlock(t.Context())
				}
				_ = h.Unlock(t.Context())
			}()
		}
		run("behind them", "permits", permit, true, 2*time.Second, "y", nil, false)
		run("waits for a permit", "y", nil, true, 0, "permits", permit, true)
		run("one", "y", nil, true, 0, "e", nil, false)
		run("another", "e", nil, false, 0, "y", nil, false)
		close(start)
		found := <-outcomes
		var d *holdfast.DeadlockError
		if !errors.As(found.err, &d) || len(d.Path) != 2 || found.who != "one" && found.who != "another" || found.at > 15*time.Second {
			t.Errorf("after %v %s gets %v", found.at, found.who, found.err)
		}
		if err := other.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		for range 3 {
			if o := <-outcomes; o.err != nil {
				t.Errorf("%s gets %v", o.who, o.err)
			}
		}
	})
}

// What a holder waits for is noted at once, even if a renewal is under way just then.
func TestNoteDuringRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			if c.Op != drivertest.Renew {
				return drivertest.Fault{}
			}
			answer := make(chan struct{})
			time.AfterFunc(200*time.Millisecond, func() { close(answer) })
			return drivertest.Fault{HoldReply: answer}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a, b := newClient(t, f, nil), newClient(t, f, nil)
		long := &holdfast.LockOptions{TTL: 30 * time.Minute}
		ha, hb := lock(t, a, "a", long), lock(t, b, "b", long)
		ofA, endA := ha.Bind(ctx)
		defer endA()
		ofB, endB := hb.Bind(ctx)
		defer endB()
		time.Sleep(10*time.Minute - 4900*time.Millisecond) // they are renewed 5 s later
		mustDeadlock(t, 20*time.Second, locking(ofA, a, "b", nil), locking(ofB, b, "a", nil))
		cancel()
	})
}

// Who works under a permit of a semaphore and asks for another one waits for the other
// holders, and not for a writer that waits for it.
func TestNestedPermitBesideWriter(t *testing.T) {
	for name, ofSameClient := range map[string]bool{"of another Client": false, "of the same Client": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				a, b := newClient(t, store, nil), newClient(t, store, nil)
				permit := &holdfast.LockOptions{Limit: 2}
				mine, err := a.RLock(t.Context(), "r", permit)
				if err != nil {
					t.Fatal(err)
				}
				other, err := b.RLock(t.Context(), "r", permit)
				if err != nil {
					t.Fatal(err)
				}
				writing := b
				if ofSameClient {
					writing = a
				}
				writer := locking(t.Context(), writing, "r", fairly("writer"))
				time.Sleep(2 * time.Second)
				ctx, cancel := mine.Bind(t.Context())
				defer cancel()
				nested := running(func() (*holdfast.Hold, error) { return a.RLock(ctx, "r", permit) })
				time.Sleep(20 * time.Second)
				unlock(t, other)
				r := <-nested
				if r.err != nil {
					t.Fatal(r.err)
				}
				unlock(t, r.hold)
				unlock(t, mine)
				unlock(t, (<-writer).hold)
			})
		})
	}
}

// A deadlock is found although the queues are full.
func TestDeadlockBehindFullQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		one, other := newClient(t, store, nil), newClient(t, store, nil)
		a, b := lock(t, one, "a", nil), lock(t, other, "b", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 70 {
			for _, resource := range []string{"a", "b"} {
				locking(ctx, newClient(t, store, nil), resource, nil)
			}
		}
		time.Sleep(2 * time.Second)
		ofA, endA := a.Bind(ctx)
		defer endA()
		ofB, endB := b.Bind(ctx)
		defer endB()
		mustDeadlock(t, 20*time.Second, locking(ofA, one, "b", nil), locking(ofB, other, "a", nil))
		cancel()
	})
}
