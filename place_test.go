package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

func waitersFor(t *testing.T, c *holdfast.Client, resource string) (lockIDs []string) {
	t.Helper()
	for p, err := range c.Admin().Waiters(t.Context(), holdfast.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		lockIDs = append(lockIDs, p.LockID)
	}
	return lockIDs
}

func mustWait(t *testing.T, c *holdfast.Client, resource string, lockIDs ...string) {
	t.Helper()
	if got := waitersFor(t, c, resource); !slices.Equal(got, lockIDs) {
		t.Errorf("%q wait for %q, want %q", got, resource, lockIDs)
	}
}

func as(lockID string) *holdfast.LockOptions { return &holdfast.LockOptions{LockID: lockID} }

func fairly(lockID string) *holdfast.LockOptions {
	return &holdfast.LockOptions{LockID: lockID, Fair: true}
}

// Who waits for a second has a place, and keeps it; the next one in the Client inherits
// it. The holder learns that it is wanted.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		holder, other := newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, holder, "r", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := locking(ctx, other, "r", as("first"))
		time.Sleep(10 * time.Millisecond)
		second := locking(t.Context(), other, "r", as("second"))
		time.Sleep(900 * time.Millisecond)
		mustWait(t, other, "r")
		time.Sleep(200 * time.Millisecond)
		mustWait(t, other, "r", "first")
		select {
		case <-h.Wanted():
			t.Error("wanted before any renewal")
		default:
		}
		for range 60 {
			time.Sleep(time.Second)
			mustWait(t, holder, "r", "first")
		}
		<-h.Wanted()
		id := place(t, other, "r").ID
		cancel()
		<-first
		time.Sleep(3 * time.Second)
		mustWait(t, other, "r", "second")
		if now := place(t, other, "r").ID; now != id {
			t.Error("the next waiter of the Client has another place")
		}
		unlock(t, h)
		r := <-second
		if r.err != nil {
			t.Fatal(r.err)
		}
		mustWait(t, other, "r")
		if again := lock(t, holder, "s", nil); isClosed(again.Wanted()) {
			t.Error("nobody wants it")
		}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func place(t *testing.T, c *holdfast.Client, resource string) holdfast.Place {
	t.Helper()
	return first(t, c.Admin().Waiters(t.Context(), holdfast.Filter{Resource: resource}))
}

// A waiter that gives up leaves its place at once.
func TestPlaceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		ctx, cancel := context.WithCancel(t.Context())
		waits := locking(ctx, newClient(t, store, nil), "r", fairly("w"))
		synctest.Wait()
		mustWait(t, c, "r", "w")
		_, err := c.TryLock(t.Context(), "r", nil)
		if held := heldError(t, err); held.Waiters != 1 || held.Position != driver.NoPlace || len(held.Ahead) != 1 || held.Ahead[0].LockID != "w" {
			t.Errorf("refused with %+v", held)
		}
		cancel()
		if r := <-waits; !errors.Is(r.err, context.Canceled) {
			t.Errorf("error %v", r.err)
		}
		synctest.Wait()
		mustWait(t, c, "r")
		unlock(t, h)
	})
}

// A fair waiter is served next but one, however many others try all the time.
func TestFairBesideTryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held = 50 * time.Millisecond
		store := memlock.New(nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		grants := 0
		for range 8 {
			c := newClient(t, store, nil)
			all.Go(func() {
				for ctx.Err() == nil {
					if h, err := c.TryLock(ctx, "r", nil); err == nil {
						grants++ // one holds it at a time
						time.Sleep(held)
						unlock(t, h)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		fair := newClient(t, store, nil)
		for range 30 {
			time.Sleep(10 * held)
			began := time.Now()
			h := lock(t, fair, "r", &holdfast.LockOptions{Fair: true})
			if waited := time.Since(began); waited > 2*held {
				t.Errorf("served after %v", waited)
			}
			unlock(t, h)
		}
		cancel()
		all.Wait()
		if grants < 100 {
			t.Errorf("the others were granted the lock %d times", grants)
		}
	})
}

// Fair waiters of many Clients are served in the order in which they came, and TryLock
// does not pass them.
func TestFairOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		const n = 20
		var order []int
		var all sync.WaitGroup
		for i := range n {
			waiter := newClient(t, store, nil)
			all.Go(func() {
				h, err := waiter.Lock(t.Context(), "r", &holdfast.LockOptions{Fair: true})
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // one holds it at a time
				time.Sleep(100 * time.Millisecond)
				unlock(t, h)
			})
			synctest.Wait()
		}
		unlock(t, h)
		for range 15 {
			_, err := c.TryLock(t.Context(), "r", nil)
			mustBeHeld(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		if !slices.IsSorted(order) || len(order) != n {
			t.Errorf("served in the order %v", order)
		}
	})
}

func TestHoldsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memlock.New(nil), nil)
		is := func(ctx context.Context, want string) {
			t.Helper()
			var got string
			for h := range holdfast.HoldsOf(ctx) {
				got += h.Resource()
			}
			if got != want {
				t.Errorf("the holds are of %q, want %q", got, want)
			}
		}
		is(t.Context(), "")
		err := c.Do(t.Context(), "a", nil, func(ctx context.Context) error {
			return c.Do(ctx, "b", nil, func(inner context.Context) error {
				ctx, cancel := holdfast.HoldOf(ctx).Bind(inner)
				defer cancel()
				is(ctx, "aba")
				for h := range holdfast.HoldsOf(ctx) {
					if h != holdfast.HoldOf(ctx) {
						t.Error("HoldOf is not the last one")
					}
					break
				}
				return nil
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}
