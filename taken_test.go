package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// If ReleaseID or ForceRelease releases a grant whose answer is under way, the hold ends when
// the answer arrives: another client may have the resource by then.
func TestTakenOnTheWay(t *testing.T) {
	for name, test := range map[string]struct {
		take func(ctx context.Context, c *holdfast.Client) ([]holdfast.Status, error)
		want error
	}{
		"by lock ID": {func(ctx context.Context, c *holdfast.Client) ([]holdfast.Status, error) {
			return c.Admin().ReleaseID(ctx, "job")
		}, holdfast.ErrReleased},
		"by force": {func(ctx context.Context, c *holdfast.Client) ([]holdfast.Status, error) {
			return c.Admin().ForceRelease(ctx, "r", holdfast.HoldID{})
		}, holdfast.ErrForced},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			answer := make(chan struct{})
			c := newClient(t, faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 1)), nil)
			d := newClient(t, store, nil)
			granted := make(chan *holdfast.Hold)
			go func() { granted <- lock(t, c, "r", &holdfast.LockOptions{LockID: "job"}) }()
			synctest.Wait()
			if ss, err := test.take(t.Context(), c); err != nil || len(ss) != 1 {
				t.Fatalf("released %v, error %v", ss, err)
			}
			next := tryLock(t, d, "r", nil)
			close(answer)
			h := <-granted
			if cause := context.Cause(h.Context()); !errors.Is(cause, test.want) {
				t.Errorf("the hold ended with %v, want %v", cause, test.want)
			}
			if err := h.Unlock(t.Context()); err != nil && !errors.Is(err, test.want) {
				t.Errorf("Unlock: %v", err)
			}
			alive(t, next)
			unlock(t, next)
			unlock(t, lock(t, c, "r", &holdfast.LockOptions{LockID: "job"}))
		})
	}
}

// lateList delays the result of the first list by a second.
type lateList struct {
	driver.Store
	lists *atomic.Int64
}

func (l lateList) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	if l.lists.Add(1) > 1 {
		return l.Store.List(ctx, f)
	}
	return func(yield func(driver.Status, error) bool) {
		var ss []driver.Status
		for s, err := range l.Store.List(ctx, f) {
			if err != nil {
				yield(s, err)
				return
			}
			ss = append(ss, s)
		}
		time.Sleep(time.Second)
		for _, s := range ss {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// A listed hold is released before the attempt whose answer got lost is repeated: the repeat
// is granted another hold, although its ID is the same.
func TestGrantedAgainOnTheWay(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, c *holdfast.Client) error{
		"RenewID": func(t *testing.T, c *holdfast.Client) error {
			if _, err := c.Admin().RenewID(t.Context(), "job", time.Minute); !errors.Is(err, holdfast.ErrLost) {
				return fmt.Errorf("got %w, want ErrLost", err)
			}
			return nil
		},
		"RenewID forever": func(t *testing.T, c *holdfast.Client) error {
			if _, err := c.Admin().RenewID(t.Context(), "job", holdfast.Forever); !errors.Is(err, holdfast.ErrLost) {
				return fmt.Errorf("got %w, want ErrLost", err)
			}
			return nil
		},
		"ReleaseID": func(t *testing.T, c *holdfast.Client) error {
			_, err := c.Admin().ReleaseID(t.Context(), "job")
			return err
		},
		"ForceRelease": func(t *testing.T, c *holdfast.Client) error {
			_, err := c.Admin().ForceRelease(t.Context(), "r", holdfast.HoldID{})
			return err
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			c := newClient(t, faulty(t, lateList{store, new(atomic.Int64)}, on(drivertest.Acquire, drivertest.Fault{LoseReply: true}, 1)), nil)
			granted := locking(t.Context(), c, "r", &holdfast.LockOptions{LockID: "job"})
			synctest.Wait()
			done := make(chan error)
			go func() { done <- act(t, c) }()
			synctest.Wait()
			if _, err := newClient(t, store, nil).Admin().ReleaseID(t.Context(), "job"); err != nil {
				t.Fatal(err)
			}
			h := (<-granted).hold
			if err := <-done; err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			alive(t, h)
			mustBeHeldBy(t, store, h)
		})
	}
}

// A hold without an end whose release gets no answer is released when the store answers
// again, although no caller has it any more. Holds of other clients stay.
func TestEndlessIsReleasedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		began := time.Now()
		outage := func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Release && time.Since(began) < time.Minute {
				return drivertest.Fault{LoseReply: c.N%2 == 0, LoseRequest: c.N%2 == 1}
			}
			return drivertest.Fault{}
		}
		for _, name := range []string{"applied", "lost"} {
			n := map[string]int{"applied": 0, "lost": 1}[name]
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Release {
					c.N = n
				}
				return outage(c)
			})
			c := newClient(t, f, nil)
			began = time.Now()
			err := c.Do(t.Context(), name, &holdfast.LockOptions{TTL: holdfast.Forever}, func(context.Context) error { return nil })
			if err == nil {
				t.Errorf("%s: Do does not say that the release got no answer", name)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			mustBeFree(t, store, name)
			calls := f.Calls(drivertest.Release)
			if time.Sleep(time.Hour); f.Calls(drivertest.Release) != calls {
				t.Errorf("%s: the hold is released again and again", name)
			}
		}
	})
}

// A program may hold the resource of the sweeps like any other.
func TestSweepResourceOfOnesOwn(t *testing.T) {
	c := newClient(t, memlock.New(nil), nil)
	h := lock(t, c, driver.SweepResource, &holdfast.LockOptions{LockID: "mine"})
	if ss, err := c.Admin().RenewID(t.Context(), "mine", time.Hour); err != nil || len(ss) != 1 {
		t.Errorf("renewed %v, error %v", ss, err)
	}
	if ss, err := c.Admin().ReleaseID(t.Context(), "mine"); err != nil || len(ss) != 1 || h.Context().Err() == nil {
		t.Errorf("released %v, error %v", ss, err)
	}
}

// The events of a hold begin with its grant.
func TestForeverIsAcquiredFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		c := newClient(t, memlock.New(nil), &holdfast.Options{Trace: &holdfast.Trace{
			HoldStart: func(ctx context.Context, _ holdfast.HoldInfo) context.Context {
				told = append(told, "acquired")
				return ctx
			},
			Renewed: func(context.Context, holdfast.CallInfo) { told = append(told, "renewed") },
		}})
		lock(t, c, "r", &holdfast.LockOptions{TTL: holdfast.Forever})
		synctest.Wait()
		if want := []string{"acquired", "renewed"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// A function that ends its goroutine, as t.FailNow does, silences nothing but itself.
func TestHookThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 10)
		c := newClient(t, memlock.New(nil), &holdfast.Options{Trace: &holdfast.Trace{
			HoldStart: func(ctx context.Context, info holdfast.HoldInfo) context.Context {
				told <- info.Hold.Resource()
				runtime.Goexit()
				return ctx
			},
		}})
		for _, r := range []string{"a", "b"} {
			unlock(t, lock(t, c, r, nil))
		}
		synctest.Wait()
		if len(told) != 2 {
			t.Errorf("told of %d locks, want 2", len(told))
		}
		if began := time.Now(); c.Close() != nil || time.Since(began) > 0 {
			t.Errorf("Close took %v", time.Since(began))
		}
	})
}
