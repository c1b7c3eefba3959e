package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// Who works under a permit and asks for another one costs the fair waiter of the same
// Client no place, and asks as seldom as others.
func TestNestedCostsNobodyThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		a, b, c := newClient(t, f, nil), newClient(t, store, nil), newClient(t, store, nil)
		permit := &holdfast.LockOptions{Limit: 2}
		other, err := b.RLock(t.Context(), "r", permit)
		if err != nil {
			t.Fatal(err)
		}
		mine, err := a.RLock(t.Context(), "r", permit)
		if err != nil {
			t.Fatal(err)
		}
		first := locking(t.Context(), a, "r", fairly("first"))
		time.Sleep(time.Second)
		second := locking(t.Context(), c, "r", fairly("second"))
		time.Sleep(time.Second)
		bound, done := mine.Bind(t.Context())
		defer done()
		ctx, cancel := context.WithTimeout(bound, 20*time.Second)
		defer cancel()
		asked := f.Calls(drivertest.Acquire)
		nested := running(func() (*holdfast.Hold, error) { return a.RLock(ctx, "r", permit) })
		for range 20 {
			time.Sleep(time.Second)
			mustWait(t, b, "r", "first", "second")
		}
		if n := f.Calls(drivertest.Acquire) - asked; n > 40 {
			t.Errorf("%d acquires in 20 s", n)
		}
		mustBeHeld(t, (<-nested).err)
		unlock(t, other)
		unlock(t, mine)
		unlock(t, (<-first).hold)
		unlock(t, (<-second).hold)
	})
}

// A waiter gives up and goes on with its work, another goroutine of its Client inherits the
// place, and the renewal that is to take back the note gets lost: that is no deadlock.
func TestNoteThatIsNotTakenBack(t *testing.T) {
	// From then on b may have looked twice within the second that the second request takes.
	for after := 3 * time.Second; after <= 6500*time.Millisecond; after += time.Second / 2 {
		t.Run(after.String(), func(t *testing.T) { testNoteThatIsNotTakenBack(t, after) })
	}
}

func testNoteThatIsNotTakenBack(t *testing.T, after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		var armed atomic.Bool
		never := make(chan struct{})
		defer close(never)
		f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Renew && armed.CompareAndSwap(true, false) {
				return drivertest.Fault{HoldRequest: never}
			}
			return drivertest.Fault{}
		})
		a, b := newClient(t, f, nil), newClient(t, store, nil)
		x, y := lock(t, a, "x", nil), lock(t, b, "y", nil)
		underX, endX := x.Bind(t.Context())
		defer endX()
		underY, endY := y.Bind(t.Context())
		defer endY()
		ctx, giveUp := context.WithCancel(underX)
		fair := &holdfast.LockOptions{Fair: true}
		impatient := locking(ctx, a, "y", fair)
		time.Sleep(time.Second)
		heir := locking(t.Context(), a, "y", fair) // works under no hold
		time.Sleep(3 * time.Second)
		waits := locking(underY, b, "x", nil)
		time.Sleep(after)
		armed.Store(true)
		giveUp()
		if r := <-impatient; !errors.Is(r.err, holdfast.ErrHeld) {
			t.Fatal(r.err)
		}
		time.AfterFunc(30*time.Second, func() { _ = x.Unlock(t.Context()) })
		r := <-waits
		if r.err != nil {
			t.Error(r.err)
		} else {
			unlock(t, r.hold)
		}
		unlock(t, y)
		unlock(t, (<-heir).hold)
	})
}

// A renewal that notes a wait gets no answer, and arrives after the wait, while another
// goroutine of the Client has the place or the queue is full: that is no deadlock.
func TestNoteThatArrivesLate(t *testing.T) {
	for _, full := range []bool{false, true} {
		for late := time.Duration(0); late < 8*time.Second; late += 700 * time.Millisecond {
			t.Run(fmt.Sprintf("full %v, after %v", full, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memlock.New(nil)
					var armed atomic.Bool
					arrive := make(chan struct{})
					f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
						if c.Op == drivertest.Renew && armed.CompareAndSwap(true, false) {
							return drivertest.Fault{HoldRequest: arrive}
						}
						return drivertest.Fault{}
					})
					a, b := newClient(t, f, nil), newClient(t, store, nil)
					long := &holdfast.LockOptions{TTL: 10 * time.Minute}
					x, y := lock(t, a, "x", long), lock(t, b, "y", long)
					others, end := context.WithCancel(t.Context())
					defer end()
					if full {
						for range 70 {
							locking(others, newClient(t, store, nil), "y", nil)
						}
						time.Sleep(2 * time.Second)
					}
					underX, endX := x.Bind(t.Context())
					defer endX()
					underY, endY := y.Bind(t.Context())
					defer endY()
					ctx, giveUp := context.WithCancel(underX)
					armed.Store(true)
					impatient := locking(ctx, a, "y", fairly(""))
					time.Sleep(time.Second)
					if !full {
						locking(others, a, "y", fairly("heir")) // works under no hold
					}
					time.Sleep(7 * time.Second)
					giveUp()
					mustBeHeld(t, (<-impatient).err)
					time.AfterFunc(late, func() { close(arrive) })
					waits := locking(underY, b, "x", nil)
					time.Sleep(time.Minute)
					unlock(t, x)
					r := <-waits
					if r.err != nil {
						t.Fatal(r.err)
					}
					unlock(t, r.hold)
				})
			})
		}
	}
}

// A waiter who gets a place of its own long after it began to wait notes it soon, and a
// deadlock that is so is found as soon as another.
func TestDeadlockWithNewPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		a, b := newClient(t, store, nil), newClient(t, store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		x, y := lock(t, a, "x", nil), lock(t, b, "y", nil)
		underX, endX := x.Bind(ctx)
		defer endX()
		underY, endY := y.Bind(ctx)
		defer endY()
		headCtx, giveUp := context.WithCancel(ctx)
		head := running(func() (*holdfast.Hold, error) { return a.RLock(headCtx, "y", nil) })
		time.Sleep(2 * time.Second)
		waits := locking(underX, a, "y", nil) // behind the head, for a hold of another kind
		time.Sleep(16 * time.Second)
		giveUp()
		<-head
		mustDeadlock(t, 15*time.Second, waits, locking(underY, b, "x", nil))
	})
}

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
		if a.Position != 1 || b.Position != holdfast.NoPlace {
			t.Errorf("positions %d and %d", a.Position, b.Position)
		}
		if len(a.Ahead) != 1 || len(b.Ahead) != 1 || &a.Ahead[0] == &b.Ahead[0] {
			t.Errorf("ahead: %v and %v", a.Ahead, b.Ahead)
		}
		unlock(t, h)
		unlock(t, (<-first).hold)
	})
}
