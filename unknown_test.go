package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// mustBeUnknown fails unless err says that the wait ended with its ctx, and matches all of
// what, but not ErrHeld.
func mustBeUnknown(t *testing.T, err error, what ...error) {
	t.Helper()
	if errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("unknown reads as held: %v", err)
	}
	for _, want := range append(what, context.DeadlineExceeded) {
		if !errors.Is(err, want) {
			t.Errorf("got error %v, want %v in it", err, want)
		}
	}
}

// The error of a wait matches ErrHeld only if the last answer in the queue, to this acquirer
// or one before it, was a refusal.
func TestUnknownIsNotHeld(t *testing.T) {
	hang := func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} }
	lose := func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} }
	for name, test := range map[string]struct {
		fault func() drivertest.Fault
		well  int           // acquires before the fault
		wait  time.Duration // of each acquirer
		last  []error       // the expected errors of the last attempt
	}{
		"nothing heard":                {hang, 0, 5 * time.Second, nil},
		"no answer":                    {lose, 0, 5 * time.Second, []error{drivertest.ErrFault}},
		"no answer in time":            {hang, 0, 12 * time.Second, nil},
		"refused, then no answer":      {lose, 2, 30 * time.Second, []error{drivertest.ErrFault}},
		"refused, then hangs for long": {hang, 2, 30 * time.Second, nil},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Acquire && c.N > test.well {
					return test.fault()
				}
				return drivertest.Fault{}
			})
			c, d := newClient(t, f, nil), newClient(t, store, nil)
			lock(t, d, "r", nil)
			ctx, cancel := context.WithTimeout(t.Context(), test.wait)
			defer cancel()
			var waits []<-chan result
			for range 3 {
				waits = append(waits, locking(ctx, c, "r", nil))
				synctest.Wait()
			}
			for _, w := range waits {
				mustBeUnknown(t, (<-w).err, test.last...)
			}
		})
	}
	inBubble(t, "no answer, then refused", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store, on(drivertest.Acquire, lose(), 1, 2, 3))
		c, d := newClient(t, f, nil), newClient(t, store, &holdfast.Options{Owner: "bob"})
		lock(t, d, "r", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		first := locking(ctx, c, "r", nil)
		synctest.Wait()
		second := locking(ctx, c, "r", nil)
		for _, w := range []<-chan result{first, second} {
			r := <-w
			if held := heldError(t, r.err); len(held.Holders) != 1 || held.Holders[0].Owner != "bob" {
				t.Errorf("got %+v", held)
			}
			if !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("got error %v, want that of ctx as well", r.err)
			}
		}
	})
	inBubble(t, "TryLock", func(t *testing.T) {
		c := newClient(t, faulty(t, memlock.New(nil), on(drivertest.Acquire, lose())), nil)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Millisecond) // ends in the first or second pause
		defer cancel()
		_, err := c.TryLock(ctx, "r", nil)
		mustBeUnknown(t, err, drivertest.ErrFault)
	})
}

// The waiters of a line wait for a silent store together, not one after the other.
func TestLineGivesUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := drivertest.Fault{HoldRequest: make(chan struct{})}
		c := newClient(t, faulty(t, memlock.New(nil), on(drivertest.Acquire, hang)), nil)
		began := time.Now()
		var waits []<-chan result
		for range 50 {
			waits = append(waits, locking(t.Context(), c, "r", nil))
			synctest.Wait()
		}
		time.Sleep(20 * time.Second)
		young := locking(t.Context(), c, "r", nil)
		for i, w := range waits {
			r := <-w
			if r.err == nil || errors.Is(r.err, holdfast.ErrHeld) {
				t.Fatalf("acquirer %d: %v", i, r.err)
			}
			// The first failure comes after the 10 s of an attempt.
			if took := r.at.Sub(began); took < 40*time.Second || took > 55*time.Second {
				t.Errorf("acquirer %d gave up after %v, want about 40 s", i, took)
			}
		}
		if r := <-young; r.err == nil || r.at.Sub(began) < 50*time.Second || r.at.Sub(began) > 75*time.Second {
			t.Errorf("one who came 20 s later gave up after %v: %v", r.at.Sub(began), r.err)
		}
	})
}
