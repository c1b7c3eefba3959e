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

// Who asks with the lock ID of the holder would wait for itself.
func TestS25a_own_hold(t *testing.T) {
	own := &holdfast.LockOptions{LockID: "own"}
	mustBeTold := func(t *testing.T, err error, began time.Time) {
		t.Helper()
		if held := heldError(t, err); !held.BySelf || held.Cause != nil {
			t.Errorf("got %+v, want BySelf", held)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("told after %v", waited)
		}
	}
	for name, same := range map[string]bool{"same Client": true, "another Client": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				c := newClient(t, store, nil)
				acquirer := c
				if !same {
					acquirer = newClient(t, store, nil)
				}
				h := lock(t, c, "r", own)
				began := time.Now()
				_, err := acquirer.Lock(t.Context(), "r", own)
				mustBeTold(t, err, began)
				_, err = acquirer.RLock(t.Context(), "r", own)
				mustBeTold(t, err, began)
				_, err = acquirer.TryLock(t.Context(), "r", own)
				mustBeTold(t, err, began)
				alive(t, h)
				mustBeHeldBy(t, store, h)
			})
		})
		t.Run(name+", others in line", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				c := newClient(t, store, nil)
				acquirer := c
				if !same {
					acquirer = newClient(t, store, nil)
				}
				h := lock(t, c, "r", own)
				var others []<-chan result
				for range 3 {
					others = append(others, locking(t.Context(), acquirer, "r", nil))
					synctest.Wait()
				}
				time.Sleep(time.Minute)
				began := time.Now()
				_, err := acquirer.Lock(t.Context(), "r", own)
				mustBeTold(t, err, began)
				unlock(t, h)
				for _, o := range others {
					r := <-o
					if r.err != nil || r.at != began {
						t.Errorf("%+v", r)
						continue
					}
					unlock(t, r.hold)
				}
			})
		})
	}
	t.Run("one waiter is granted, the other told", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			c, d := newClient(t, store, nil), newClient(t, store, nil)
			h := lock(t, d, "r", nil)
			first := locking(t.Context(), c, "r", own)
			synctest.Wait()
			second := locking(t.Context(), c, "r", own)
			time.Sleep(time.Minute)
			if len(first)+len(second) != 0 {
				t.Fatal("told that the hold of another is one's own")
			}
			began := time.Now()
			unlock(t, h)
			if r := <-first; r.err != nil {
				t.Fatal(r.err)
			}
			mustBeTold(t, (<-second).err, began)
		})
	})
	t.Run("news out of date", func(t *testing.T) {
		// The attempt of the queue's head is under way when the acquirer arrives: its
		// answer names a holder that may have gone before.
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			answer := make(chan struct{})
			f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 1))
			c, d := newClient(t, f, nil), newClient(t, store, nil)
			h := lock(t, d, "r", own)
			head := locking(t.Context(), c, "r", nil)
			synctest.Wait()
			unlock(t, h)
			mine := locking(t.Context(), c, "r", own)
			synctest.Wait()
			close(answer)
			r := <-head
			if r.err != nil {
				t.Fatal(r.err)
			}
			unlock(t, r.hold)
			if r := <-mine; r.err != nil {
				t.Errorf("told of a hold that was released before: %v", r.err)
			}
		})
	})
	t.Run("orphan", func(t *testing.T) {
		// What the same Client is cleaning up goes away: that is worth the wait.
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store,
				on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})}, 1),
				on(drivertest.Release, drivertest.Fault{LoseRequest: true}, 1, 2, 3, 4, 5))
			c := newClient(t, f, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Lock(ctx, "r", own); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrHeld) {
				t.Fatalf("got error %v", err)
			}
			if len(holdsIn(t, store, "r")) != 1 {
				t.Fatal("there is no orphan")
			}
			_, err := c.TryLock(t.Context(), "r", own)
			if held := heldError(t, err); held.BySelf {
				t.Error("TryLock took the orphan for its own hold")
			}
			lock(t, c, "r", own)
		})
	})
	t.Run("orphan that is gone when the refusal is heard", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			clean, answer := make(chan struct{}), make(chan struct{})
			f := faulty(t, store,
				on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})}, 1),
				on(drivertest.Release, drivertest.Fault{HoldRequest: clean}, 1),
				on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 2))
			c := newClient(t, f, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.Lock(ctx, "r", own)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got error %v", err)
			}
			mine := locking(t.Context(), c, "r", own)
			synctest.Wait()
			close(clean)
			synctest.Wait()
			mustBeFree(t, store, "r")
			close(answer)
			if r := <-mine; r.err != nil {
				t.Errorf("took the orphan for its own hold: %v", r.err)
			}
		})
	})
}
