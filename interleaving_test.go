package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// deafAcquires is a store whose acquires are answered when it says so, whatever becomes of
// their contexts.
type deafAcquires struct {
	driver.Store
	answer chan struct{}
}

func (s *deafAcquires) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.Store.Acquire(context.WithoutCancel(ctx), q)
	<-s.answer
	return g, err
}

// A grant that arrives after Close has released what was held is given back.
func TestGrantAfterClose(t *testing.T) {
	for name, acquire := range map[string]func(*holdfast.Client, context.Context) (*holdfast.Hold, error){
		"Lock": func(c *holdfast.Client, ctx context.Context) (*holdfast.Hold, error) { return c.Lock(ctx, "r", nil) },
		"TryRLock": func(c *holdfast.Client, ctx context.Context) (*holdfast.Hold, error) {
			return c.TryRLock(ctx, "r", nil)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			s := &deafAcquires{store, make(chan struct{})}
			c := unswept(s, nil)
			got := running(func() (*holdfast.Hold, error) { return acquire(c, t.Context()) })
			synctest.Wait()
			if len(holdsIn(t, store, "r")) != 1 {
				t.Fatal("nothing was granted")
			}
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			time.Sleep(time.Second)
			close(s.answer)
			if r := <-got; !errors.Is(r.err, holdfast.ErrClosed) {
				t.Errorf("got %v and error %v", r.hold, r.err)
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			mustBeFree(t, store, "r")
		})
	}
}

// Do runs nothing without the lock, if Close comes between.
func TestCloseBeforeDoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := unswept(store, nil)
		h := lock(t, c, "r", nil)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		err := c.RunDo(t.Context(), h, func(context.Context) error {
			t.Error("it ran")
			return nil
		})
		if !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("error %v", err)
		}
		mustBeFree(t, store, "")
	})
}

// What an acquire without an answer left stops the next ones with its lock ID until it is
// cleaned up. The refusal is heard in the same moment: none of them takes it for a hold of
// this Client, the one that asked or the one behind it.
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
		if got.err != nil { // either may come first
			got, told = told, got
		}
		if got.err != nil {
			t.Fatal(got.err)
		}
		h := got.hold
		if held := heldError(t, told.err); !held.BySelf || len(held.Holders) != 1 || held.Holders[0].HoldID != h.ID() {
			t.Errorf("the other was told of %+v", held)
		}
		unlock(t, h)
	})
}

// The answer to a renewal changes nothing once the hold was released.
func TestRenewalAnsweredAfterUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		answer := make(chan struct{})
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldReply: answer}, 1))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		time.Sleep(holdfast.DefaultTTL / 3)
		synctest.Wait()
		if f.Calls(drivertest.Renew) != 1 {
			t.Fatal("no renewal is under way")
		}
		unlock(t, h)
		next := tryLock(t, c, "r", nil)
		close(answer)
		time.Sleep(time.Minute)
		if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrReleased) || h.Left() != 0 {
			t.Errorf("the hold ended with %v and has %v left", cause, h.Left())
		}
		alive(t, next)
		mustBeHeldBy(t, store, next)
	})
}

// An invitation is not lost with the one who gets it as its ctx ends.
func TestInvitationAsCtxEnds(t *testing.T) {
	for i := range 50 {
		inBubble(t, fmt.Sprint(i), func(t *testing.T) {
			c := newClient(t, memlock.New(nil), nil)
			h := lock(t, c, "r", nil)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			first := locking(ctx, c, "r", nil)
			synctest.Wait()
			next := locking(t.Context(), c, "r", nil)
			time.Sleep(10 * time.Second)
			began := time.Now()
			unlock(t, h)
			if r := <-first; r.err == nil {
				unlock(t, r.hold)
			} else if !errors.Is(r.err, context.DeadlineExceeded) {
				t.Error(r.err)
			}
			r := <-next
			if r.err != nil || r.at != began {
				t.Fatalf("the next one: after %v, error %v", r.at.Sub(began), r.err)
			}
			unlock(t, r.hold)
		})
	}
}
