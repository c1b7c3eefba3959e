package holdfast_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// hanging returns a store that can hold an acquire up until arrive is closed. hang waits for
// the next acquire and returns when it is held up.
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

// One request without an answer does not cost a fair waiter its place.
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

// An attempt that arrives after its waiter was granted the lock, and has released it, takes a
// place. The place is cleaned up.
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

// One lost request costs no place, whether it is that of a Lock that has just begun or of one
// that inherits the place.
func TestLostRequestCostsNoPlace(t *testing.T) {
	// lost loses the n-th acquire of a lock ID, or its reply, once it is armed.
	lost := func(t *testing.T, store *memlock.Store, lockID string, n int64, reply bool) (f *drivertest.FaultStore, arm func()) {
		var left atomic.Int64
		f = faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			switch {
			case c.Op != drivertest.Acquire || c.Refs[0].LockID != lockID || left.Add(-1) != 0:
				return drivertest.Fault{}
			case reply:
				return drivertest.Fault{HoldReply: after(time.Minute)}
			}
			return drivertest.Fault{HoldRequest: after(time.Minute)}
		})
		return f, func() { left.Store(n) }
	}
	inTurn := func(t *testing.T, h *holdfast.Hold, waits ...<-chan result) {
		for i, w := range waits {
			var idle time.Duration
			if h, idle = handOver(t, h, w); idle > 1500*time.Millisecond {
				t.Errorf("waiter %d had the free resource after %v", i, idle)
			}
		}
		unlock(t, h)
	}
	for _, reply := range []bool{false, true} {
		for n := range int64(4) {
			for _, held := range []time.Duration{2 * time.Second, 4 * time.Second, 30 * time.Second} {
				inBubble(t, fmt.Sprintf("reply %v, acquire %d, held for %v", reply, n, held), func(t *testing.T) {
					store := memlock.New(nil)
					h := lock(t, newClient(t, store, nil), "r", nil)
					f, arm := lost(t, store, "first", n+1, reply)
					arm()
					first := locking(t.Context(), newClient(t, f, nil), "r", fairly("first"))
					if n == 0 && !reply { // then it has no place yet
						time.Sleep(3 * time.Second)
					}
					time.Sleep(500 * time.Millisecond)
					second := locking(t.Context(), newClient(t, store, nil), "r", fairly("second"))
					time.Sleep(held)
					inTurn(t, h, first, second)
				})
			}
		}
		for at := 5 * time.Second; at < 12*time.Second; at += 610 * time.Millisecond {
			inBubble(t, fmt.Sprintf("reply %v, inherited after %v", reply, at), func(t *testing.T) {
				store := memlock.New(nil)
				h := lock(t, newClient(t, store, nil), "r", nil)
				f, arm := lost(t, store, "heir", 1, reply)
				c := newClient(t, f, nil)
				ctx, cancel := context.WithCancel(t.Context())
				head := locking(ctx, c, "r", fairly("head"))
				time.Sleep(time.Second)
				heir := locking(t.Context(), c, "r", fairly("heir"))
				time.Sleep(time.Second)
				next := locking(t.Context(), newClient(t, store, nil), "r", fairly("next"))
				time.Sleep(at)
				arm()
				cancel()
				<-head
				time.Sleep(20 * time.Second)
				inTurn(t, h, heir, next)
			})
		}
	}
}

// A late attempt takes its place again, while its Lock waits or after it has ended. The
// clean-up gives the place up within about a second, however short the TTL is and however
// long ago the attempt was abandoned.
func TestLateAttemptOfLockThatGoesOn(t *testing.T) {
	for _, ttl := range []time.Duration{500 * time.Millisecond, 5 * time.Second, 30 * time.Second} {
		for wait := time.Duration(0); wait < 8*time.Second; wait += 1900 * time.Millisecond {
			for late := wait + 300*time.Millisecond; late < 9*time.Second; late += 1300 * time.Millisecond {
				inBubble(t, fmt.Sprint(ttl, wait, late), func(t *testing.T) {
					store := memlock.New(nil)
					f, hang, arrive := hanging(t, store)
					h := lock(t, newClient(t, store, nil), "r", nil)
					ctx, cancel := context.WithCancel(t.Context())
					o := fairly("late")
					o.TTL = ttl
					w := locking(ctx, newClient(t, f, nil), "r", o)
					time.Sleep(3 * time.Second)
					hang()
					sent := time.Now()
					time.Sleep(wait)
					cancel()
					<-w
					time.Sleep(late - time.Since(sent))
					close(arrive)
					time.Sleep(time.Millisecond)
					next := locking(t.Context(), newClient(t, store, nil), "r", nil)
					time.Sleep(time.Millisecond)
					h, idle := handOver(t, h, next)
					if idle > 1500*time.Millisecond {
						t.Errorf("the resource was free for %v", idle)
					}
					unlock(t, h)
				})
			}
		}
	}
}

// A clean-up sends releases often while an attempt may still take a place, and seldom after
// that.
func TestCleanUpOfPlaceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f, hang, arrive := hanging(t, store)
		lock(t, newClient(t, store, nil), "r", nil)
		ctx, cancel := context.WithCancel(t.Context())
		w := locking(ctx, newClient(t, f, nil), "r", &holdfast.LockOptions{Fair: true, TTL: time.Hour, TakeoverDelay: time.Hour})
		time.Sleep(3 * time.Second)
		hang()
		cancel()
		<-w
		time.Sleep(15 * time.Minute)
		if n := f.Calls(drivertest.Release); n > 90 {
			t.Errorf("the clean-up sent %d releases", n)
		}
		close(arrive)
	})
}

// A store may need longer for an answer than a waiter leaves between two requests for its
// place.
func TestFairOnSlowStore(t *testing.T) {
	for _, latency := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second} {
		inBubble(t, latency.String(), func(t *testing.T) {
			store := memlock.New(nil)
			slow := faulty(t, store, delayed(drivertest.Acquire, latency))
			free := lock(t, newClient(t, slow, nil), "free", &holdfast.LockOptions{Fair: true})
			unlock(t, free)
			h := lock(t, newClient(t, store, nil), "r", nil)
			time.AfterFunc(20*time.Second, func() { _ = h.Unlock(context.Background()) })
			began := time.Now()
			r := <-locking(t.Context(), newClient(t, slow, nil), "r", fairly("w"))
			if took := time.Since(began); r.err != nil || took > 20*time.Second+2*latency {
				t.Fatalf("after %v: %v", took, r.err)
			}
			unlock(t, r.hold)
		})
	}
}

// An attempt that arrives after its Lock has ended blocks a free resource for about a second,
// however short its TTL is.
func TestLateAttemptOfShortTTL(t *testing.T) {
	for late := 100 * time.Millisecond; late < 9*time.Second; late += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f, hang, arrive := hanging(t, store)
			h := lock(t, newClient(t, store, nil), "r", nil)
			ctx, cancel := context.WithCancel(t.Context())
			o := fairly("late")
			o.TTL = time.Second
			w := locking(ctx, newClient(t, f, nil), "r", o)
			time.Sleep(3 * time.Second)
			hang()
			cancel()
			<-w
			time.Sleep(late)
			close(arrive)
			time.Sleep(time.Millisecond)
			next := locking(t.Context(), newClient(t, store, nil), "r", nil)
			time.Sleep(time.Millisecond)
			h, idle := handOver(t, h, next)
			if idle > 1500*time.Millisecond {
				t.Errorf("arrived after %v: the resource was free for %v", late, idle)
			}
			unlock(t, h)
		})
	}
}
