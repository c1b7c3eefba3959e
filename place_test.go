package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

// A caller that has waited for a second has a place and keeps it. The next waiter of the
// Client inherits it. The holder learns that its lock is wanted.
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
			t.Errorf("the refusal is %+v", held)
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

// A fair waiter is served after at most one other, however many others keep trying.
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
						grants++ // one goroutine at a time holds it
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

// Fair waiters of many Clients are served in the order of their arrival, and TryLock does not
// overtake them.
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
				order = append(order, i) // one goroutine at a time holds it
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

// Each waiter gets its own answer: only the one with the place has a position.
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
			t.Errorf("the waiters have positions %d and %d", a.Position, b.Position)
		}
		if len(a.Ahead) != 1 || len(b.Ahead) != 1 || &a.Ahead[0] == &b.Ahead[0] {
			t.Errorf("ahead: %v and %v", a.Ahead, b.Ahead)
		}
		unlock(t, h)
		unlock(t, (<-first).hold)
	})
}

// unwritten is a store that now and then refuses without writing the place.
type unwritten struct {
	driver.Store
	asked int
}

func (f *unwritten) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	f.asked++
	place := q.Place
	if f.asked%2 == 0 {
		q.Place = driver.PlaceID{}
	}
	g, err := f.Store.Acquire(ctx, q)
	var held *holdfast.HeldError
	if errors.As(err, &held) && q.Place != place {
		held.Position = driver.NoPlace
	}
	return g, err
}

func (f *unwritten) Waiters(ctx context.Context, filter holdfast.Filter) iter.Seq2[holdfast.Place, error] {
	return f.Store.(driver.Queue).Waiters(ctx, filter)
}

// A waiter whose place could not be written asks again before its place ends, also if others
// are ahead of it.
func TestPlaceNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := holdfast.New(store, nil)
		h, err := c.Lock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				h, err := holdfast.New(&unwritten{Store: store, asked: i}, nil).Lock(t.Context(), "r", &holdfast.LockOptions{Fair: true, LockID: fmt.Sprint(i)})
				if err == nil {
					err = h.Unlock(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		order := func() (ids []string) {
			for p, err := range c.Admin().Waiters(t.Context(), holdfast.Filter{}) {
				if err != nil {
					t.Error(err)
				}
				ids = append(ids, p.LockID)
			}
			return ids
		}
		first := order()
		if len(first) != 3 {
			t.Errorf("the waiters are %q", first)
		}
		for range 300 {
			time.Sleep(time.Second)
			if now := order(); !slices.Equal(now, first) {
				t.Errorf("the waiters are %q, before they were %q", now, first)
				break
			}
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
}
