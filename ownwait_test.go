package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// busy is a store in which the lock ID "own" holds every resource, according to its answers
// from the second one on.
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
	return driver.Grant{}, &holdfast.HeldError{
		Resource: q.Resource, RetryAfter: driver.Unknown, BySelf: q.LockID == "own",
		Holders: []holdfast.Status{{Resource: q.Resource, LockID: "own", HoldID: driver.NewHoldID(), Left: time.Hour}},
	}
}

// A program that locks a new resource each time must not grow: the Client keeps nothing of a
// resource that has no waiter and no holder, however the waits ended.
func TestLinesLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfast.New(&busy{}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		// Both learn of it at once, and go in any order.
		for range 2 {
			go func() { _, _ = c.Lock(ctx, "both own", &holdfast.LockOptions{LockID: "own"}) }()
			synctest.Wait()
		}
		holdfast.EndWaitsOf(c, "both own", "own")
		synctest.Wait()
		if n := holdfast.Waits(c); n != 0 {
			t.Errorf("%d waiters are left", n)
		}
		for i := range 20 {
			o := &holdfast.LockOptions{}
			if i%3 == 1 {
				o.LockID = "own" // it loses its place in line
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
		time.Sleep(15 * time.Second)
		if n := holdfast.Waits(c) + holdfast.Orphans(c); n != 0 || len(c.Admin().Live()) != 0 {
			t.Errorf("left: %d waits and orphans, holds %v", n, c.Admin().Live())
		}
	})
}

// The head of a Client's queue is refused for its own lock ID because of a grant to another
// request: the next waiter becomes the head in time.
func TestHeadWithOwnLockIDLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		gates := map[string]chan struct{}{"head": make(chan struct{}), "next": make(chan struct{})}
		var closed atomic.Bool // whether the gates are closed
		f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Acquire && closed.Load() {
				return drivertest.Fault{HoldRequest: gates[c.Refs[0].LockID]} // nil for others: no gate
			}
			return drivertest.Fault{}
		})
		permit := func(lockID string, fair bool) *holdfast.LockOptions {
			return &holdfast.LockOptions{LockID: lockID, Fair: fair, Limit: 4}
		}
		other, c := newClient(t, store, nil), newClient(t, &deaf{Store: f}, nil)
		h := lock(t, other, "r", nil)
		var waits []<-chan result
		for _, w := range []*holdfast.LockOptions{permit("1", true), permit("2", true), permit("head", false), permit("next", true)} {
			waits = append(waits, running(func() (*holdfast.Hold, error) { return c.RLock(t.Context(), "r", w) }))
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		closed.Store(true)
		unlock(t, h)
		holds := []*holdfast.Hold{(<-waits[0]).hold, (<-waits[1]).hold} // the two others were invited and their requests are under way
		take := func(c *holdfast.Client, lockID string) *holdfast.Hold {
			h, err := c.TryRLock(t.Context(), "r", permit(lockID, false))
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		first := take(other, "first")
		holds = append(holds, take(other, "second"))
		close(gates["head"])
		time.Sleep(2 * time.Second)
		mustWait(t, other, "r", "head")
		unlock(t, first)
		holds = append(holds, take(c, "head"))
		close(gates["next"])
		if r := <-waits[2]; !errors.Is(r.err, holdfast.ErrHeld) {
			t.Fatal(r.err)
		}
		asked := f.Calls(drivertest.Acquire)
		time.Sleep(10 * time.Second)
		mustWait(t, other, "r", "next")
		if n := f.Calls(drivertest.Acquire) - asked; n > 100 {
			t.Errorf("the waiters asked %d times in 10 s", n)
		}
		for _, h := range holds {
			unlock(t, h)
		}
		unlock(t, (<-waits[3]).hold)
	})
}

// Waiters with lock IDs of their own do not ask more often.
func TestNamedWaitersInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		lock(t, d, "r", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { _, _ = c.Lock(ctx, "r", &holdfast.LockOptions{LockID: fmt.Sprint("job ", i)}) })
			time.Sleep(2 * time.Millisecond)
		}
		if n := f.Calls(drivertest.Acquire); n > 6 {
			t.Errorf("%d acquires for 1,000 who came in 2 s, want one a second or so", n)
		}
		all.Wait()
	})
}

// A waiter learns at once of an own hold that came after the last refusal, however many
// waiters are before it.
func TestOwnHoldIsToldInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		if _, err := d.RLock(t.Context(), "r", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		writer := locking(ctx, c, "r", nil)
		synctest.Wait()
		own := &holdfast.LockOptions{LockID: "own"}
		if _, err := c.TryRLock(t.Context(), "r", own); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := c.Lock(t.Context(), "r", own)
		if held := heldError(t, err); !held.BySelf || time.Since(began) > 0 {
			t.Errorf("got %+v after %v", held, time.Since(began))
		}
		cancel()
		<-writer
	})
}

// The remains of an unanswered acquire stop the next ones with its lock ID until they are
// cleaned up. The refusal arrives at the same moment: neither the asking waiter nor the one
// behind it takes it for a hold of this Client.
func TestOrphanThatEndsStopsNobody(t *testing.T) {
	own := &holdfast.LockOptions{LockID: "own"}
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		clean, answer := make(chan struct{}), make(chan struct{})
		c := newClient(t, faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})}, 1),
			on(drivertest.Release, drivertest.Fault{HoldRequest: clean}, 1),
			on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 2)), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "r", own); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got error %v", err)
		}
		first := locking(t.Context(), c, "r", own)
		synctest.Wait()
		behind := locking(t.Context(), c, "r", own)
		synctest.Wait()
		close(clean)
		close(answer) // in any order
		got, told := <-first, <-behind
		if got.err != nil { // either may be first
			got, told = told, got
		}
		if got.err != nil {
			t.Fatal(got.err)
		}
		h := got.hold
		if held := heldError(t, told.err); !held.BySelf || len(held.Holders) != 1 || held.Holders[0].HoldID != h.ID() {
			t.Errorf("the other waiter got %+v", held)
		}
		unlock(t, h)
	})
}
