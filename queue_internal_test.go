package holdfast

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

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// busy is a store where all is held by the lock ID "own", as it says from the
// second question on.
type busy struct {
	driver.Store
	asked bool
}

func (*busy) Traits() driver.Traits { return driver.Traits{} }

func (b *busy) Release(_ context.Context, rs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return []driver.ReleaseResult{{Found: true}}, nil
}

func (b *busy) Acquire(_ context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if !b.asked {
		b.asked = true
		return driver.Grant{}, errors.New("no answer")
	}
	return driver.Grant{}, &HeldError{
		Resource: q.Resource, RetryAfter: driver.Unknown, BySelf: q.LockID == "own",
		Holders: []Status{{Resource: q.Resource, LockID: "own", HoldID: driver.NewHoldID(), Left: time.Hour}},
	}
}

// A program that locks a new resource each time must not grow: nothing is kept of
// one that nobody waits for or holds, however the waits ended.
func TestLinesLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(&busy{}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		// Both are told at once, and go in any order.
		for range 2 {
			go func() { _, _ = c.Lock(ctx, "both own", &LockOptions{LockID: "own"}) }()
			synctest.Wait()
		}
		c.mu.Lock()
		h := &Hold{client: c, ref: driver.HoldRef{Resource: "both own", LockID: "own", HoldID: driver.NewHoldID()}, deadline: never}
		c.holds[h.ref.HoldID] = h
		c.named[lockKey{"both own", "own"}] = h
		c.rejectOwn(h)
		c.finish(h, released, ErrReleased)
		c.mu.Unlock()
		synctest.Wait()
		if len(c.queues) != 0 {
			t.Error("they still wait")
		}
		for i := range 20 {
			o := &LockOptions{}
			if i%3 == 1 {
				o.LockID = "own" // sent away from its place in line
			}
			ctx := ctx
			if i%4 == 0 {
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				ctx = short
			}
			go func() { _, _ = c.Lock(ctx, "r", o) }()
			synctest.Wait()
		}
		time.Sleep(5*time.Second + copiesArrive)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.queues)+len(c.cleaner.orphans)+len(c.holds) != 0 {
			t.Errorf("left: lines %v, orphans %v, holds %v", c.queues, c.cleaner.orphans, c.holds)
		}
	})
}

// forgetful is a store that refuses now and then without a write of the place.
type forgetful struct {
	driver.Store
	asked int
}

func (f *forgetful) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	f.asked++
	place := q.Place
	if f.asked%2 == 0 {
		q.Place = driver.PlaceID{}
	}
	g, err := f.Store.Acquire(ctx, q)
	var held *HeldError
	if errors.As(err, &held) && q.Place != place {
		held.Position = driver.NoPlace
	}
	return g, err
}

func (f *forgetful) Waiters(ctx context.Context, filter Filter) iter.Seq2[Place, error] {
	return f.Store.(driver.Queue).Waiters(ctx, filter)
}

// A waiter whose place could not be written tries again before it ends, also if others
// are ahead of it.
func TestPlaceNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := New(store, nil)
		h, err := c.Lock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				h, err := New(&forgetful{Store: store, asked: i}, nil).Lock(t.Context(), "r", &LockOptions{Fair: true, LockID: fmt.Sprint(i)})
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
			for p, err := range c.Admin().Waiters(t.Context(), Filter{}) {
				if err != nil {
					t.Error(err)
				}
				ids = append(ids, p.LockID)
			}
			return ids
		}
		first := order()
		if len(first) != 3 {
			t.Errorf("%q wait", first)
		}
		for range 300 {
			time.Sleep(time.Second)
			if now := order(); !slices.Equal(now, first) {
				t.Errorf("%q wait, before it was %q", now, first)
				break
			}
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
}
