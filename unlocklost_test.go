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
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// cutOff lets only acquires through while down is set.
func cutOff(down *atomic.Bool, fault drivertest.Fault) rule {
	return func(c drivertest.Call) drivertest.Fault {
		if c.Op != drivertest.Acquire && down.Load() {
			return fault
		}
		return drivertest.Fault{}
	}
}

// Unlock of a lost hold does not wait, even if the store may still have the hold, which is
// released as soon as the store answers.
func TestUnlockOfTheLost(t *testing.T) {
	const takeover = time.Minute
	for name, fault := range map[string]drivertest.Fault{
		"fails": {LoseRequest: true},
		"hangs": {HoldRequest: make(chan struct{})},
	} {
		inBubble(t, name, func(t *testing.T) {
			if fault.HoldRequest != nil {
				fault.HoldRequest = make(chan struct{}) // made within this bubble
			}
			var down atomic.Bool
			store := memlock.New(nil)
			f := faulty(t, store, cutOff(&down, fault))
			c := newClient(t, f, nil)
			var holds []*holdfast.Hold
			for i := range 1500 {
				holds = append(holds, lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{TakeoverDelay: takeover}))
			}
			down.Store(true)
			mustEnd(t, holds[0], time.Minute, holdfast.ErrUnreachable)
			synctest.Wait()
			began := time.Now()
			for range 2 {
				for _, h := range holds {
					var loss *holdfast.LostError
					if err := h.Unlock(t.Context()); !errors.As(err, &loss) || !errors.Is(err, holdfast.ErrUnreachable) {
						t.Fatalf("Unlock: %v", err)
					}
				}
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("it took %v", took)
			}
			time.Sleep(10 * time.Second)
			if n := len(holdsIn(t, store, "")); n != len(holds) {
				t.Fatalf("the store has %d holds", n)
			}
			down.Store(false)
			time.Sleep(12 * time.Second)
			if n := len(holdsIn(t, store, "")); n != 0 {
				t.Errorf("the store has %d holds after it answered again", n)
			}
		})
	}
}

// A hold that has passed its deadline is lost even if no timer has fired yet: not all of the
// work ran under the lock.
func TestUnlockAfterTheEnd(t *testing.T) {
	for name, unlock := range map[string]func(context.Context, *holdfast.Client, func()) error{
		"Unlock": func(ctx context.Context, c *holdfast.Client, work func()) error {
			h, err := c.Lock(ctx, "r", nil)
			if err != nil {
				return err
			}
			work()
			return h.Unlock(ctx)
		},
		"UnlockAfter": func(ctx context.Context, c *holdfast.Client, work func()) error {
			h, err := c.Lock(ctx, "r", nil)
			if err != nil {
				return err
			}
			work()
			return h.UnlockAfter(ctx, time.Second)
		},
		"Do": func(ctx context.Context, c *holdfast.Client, work func()) error {
			return c.Do(ctx, "r", nil, func(context.Context) error { work(); return nil })
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			machine := newSleeper()
			store := memlock.New(&memlock.Options{Now: machine.now})
			c, d := newClient(t, store, holdfast.WithClock(machine.clock, nil)), newClient(t, store, holdfast.WithClock(machine.clock, nil))
			var next *holdfast.Hold
			err := unlock(t.Context(), c, func() {
				machine.sleep(time.Minute)
				next = tryLock(t, d, "r", nil)
			})
			if !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrExpired) {
				t.Errorf("got error %v", err)
			}
			synctest.Wait()
			mustBeHeldBy(t, store, next)
		})
	}
}

// refusing is a store that returns ErrLost for each renewal and still has the hold, like a
// store that was restored from a backup.
type refusing struct{ driver.Store }

func (refusing) Renew(_ context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	rs := make([]driver.RenewResult, len(qs))
	for i := range rs {
		rs[i].Err = driver.ErrLost
	}
	return rs, nil
}

// A hold that is lost before its end does not stay in the store either.
func TestUnlockOfTheRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		store := memlock.New(nil)
		f := faulty(t, refusing{store}, cutOff(&down, drivertest.Fault{LoseRequest: true}))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{TTL: 24 * time.Hour})
		if err := h.Renew(t.Context(), 0); !errors.Is(err, holdfast.ErrForced) {
			t.Fatalf("Renew: %v", err)
		}
		down.Store(true)
		if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("Unlock: %v", err)
		}
		time.Sleep(4 * time.Minute)
		mustBeHeldBy(t, store, h)
		down.Store(false)
		time.Sleep(12 * time.Second)
		mustBeFree(t, store, "r")
	})
}

// Close does not wait long for a lost hold that expires.
func TestCloseAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		f := faulty(t, memlock.New(nil), cutOff(&down, drivertest.Fault{HoldRequest: make(chan struct{})}))
		c := unswept(f, nil)
		h := lock(t, c, "r", nil)
		down.Store(true)
		mustEnd(t, h, time.Minute, holdfast.ErrUnreachable)
		began := time.Now()
		if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrUnreachable) {
			t.Errorf("Unlock: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// The answer to the release of a hold that another program has retaken is definite.
func TestCleanUpOfTheRetaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		f := faulty(t, remaining{memlock.New(nil)}, cutOff(&down, drivertest.Fault{LoseRequest: true}))
		c := newClient(t, f, nil)
		h := lock(t, c, "taken", &holdfast.LockOptions{TTL: holdfast.Forever})
		down.Store(true)
		if err := h.Unlock(t.Context()); err == nil || errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("Unlock: %v", err)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		n := f.Calls(drivertest.Release)
		time.Sleep(time.Hour)
		if more := f.Calls(drivertest.Release) - n; more != 0 {
			t.Errorf("%d releases after the answer", more)
		}
	})
}
