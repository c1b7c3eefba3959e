package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// An unanswered attempt arrives after the hold of a later attempt was released: it is a new
// acquisition that no caller has.
func TestStrayAfterUnlock(t *testing.T) {
	for name, test := range map[string]struct {
		unlock func(*holdfast.Client, *holdfast.Hold) error
		held   time.Duration // before the release
		after  time.Duration // how long the released hold still blocks
		late   time.Duration // after the Unlock
	}{
		"at once":    {func(_ *holdfast.Client, h *holdfast.Hold) error { return h.Unlock(context.Background()) }, 0, 0, 0},
		"later":      {func(_ *holdfast.Client, h *holdfast.Hold) error { return h.Unlock(context.Background()) }, 3 * time.Second, 0, 500 * time.Millisecond},
		"much later": {func(_ *holdfast.Client, h *holdfast.Hold) error { return h.Unlock(context.Background()) }, 0, 0, 25 * time.Second},
		"UnlockAfter": {func(_ *holdfast.Client, h *holdfast.Hold) error {
			return h.UnlockAfter(context.Background(), 5*time.Second)
		}, 0, 5 * time.Second, 8 * time.Second},
		"ReleaseID": {func(c *holdfast.Client, h *holdfast.Hold) error {
			return second(c.Admin().ReleaseID(context.Background(), h.LockID()))
		}, 0, 0, time.Second},
		"ForceRelease": {func(c *holdfast.Client, h *holdfast.Hold) error {
			return second(c.Admin().ForceRelease(context.Background(), "r", h.ID()))
		}, 0, 0, time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			arrive := make(chan struct{})
			f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1))
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			time.Sleep(test.held)
			began := time.Now()
			if err := test.unlock(c, h); err != nil {
				t.Fatal(err)
			}
			if test.after > 0 {
				time.Sleep(test.after - time.Millisecond)
				if len(holdsIn(t, store, "r")) != 1 {
					t.Error("the clean-up ended the delay of UnlockAfter")
				}
			}
			time.Sleep(test.late - time.Since(began))
			close(arrive)
			synctest.Wait()
			if test.late > 0 && len(holdsIn(t, store, "r")) != 1 {
				t.Fatal("the attempt did not arrive")
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			mustBeFree(t, store, "r")
		})
	}
}

// An acquire arrives at the last moment, after a release that was sent earlier and is
// answered later: that release has not found it.
func TestStrayBehindTheLastRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 4 * time.Second
		store := memlock.New(nil)
		arrive := make(chan struct{})
		began := time.Now()
		f := faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive}, 1),
			func(c drivertest.Call) drivertest.Fault {
				if at := time.Since(began); c.Op == drivertest.Release && at > ttl-time.Second && at < ttl {
					return drivertest.Fault{HoldReply: after(ttl + time.Second - at)}
				}
				return drivertest.Fault{}
			})
		c := newClient(t, f, &holdfast.Options{TTL: ttl})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.TryLock(ctx, "r", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(ttl - time.Since(began))
		close(arrive)
		synctest.Wait()
		if len(holdsIn(t, store, "r")) != 1 {
			t.Fatal("the acquire did not arrive")
		}
		time.Sleep(ttl / 2)
		mustBeFree(t, store, "r")
	})
}

// However many acquires are interrupted, they are cleaned up in batches, by one or two
// goroutines, and for a limited time.
func TestManyOrphans(t *testing.T) {
	const orphans = 745
	for _, ttl := range []time.Duration{30 * time.Second, 24 * time.Hour} {
		inBubble(t, fmt.Sprint(ttl), func(t *testing.T) {
			f := faulty(t, memlock.New(nil), on(drivertest.Acquire, drivertest.Fault{LoseRequest: true}),
				// Releases that come while one is under way travel together.
				func(c drivertest.Call) drivertest.Fault {
					if c.Op == drivertest.Release {
						return drivertest.Fault{HoldReply: after(time.Millisecond)}
					}
					return drivertest.Fault{}
				})
			c := newClient(t, f, &holdfast.Options{TTL: ttl})
			before, _ := goroutines()
			var all sync.WaitGroup
			for i := range orphans {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
					if _, err := c.TryLock(ctx, fmt.Sprint("r", i), nil); err == nil {
						t.Error("an acquire was granted")
					}
				})
			}
			all.Wait()
			synctest.Wait()
			if n, stacks := goroutines(); n > before+2 {
				t.Errorf("%d more goroutines:\n%s", n-before, stacks)
			}
			time.Sleep(20 * time.Minute)
			n := f.Calls(drivertest.Release)
			if n > orphans/2 {
				t.Errorf("the store got %d calls of Release", n)
			}
			time.Sleep(time.Hour)
			if f.Calls(drivertest.Release) != n {
				t.Error("the clean-up does not end")
			}
			if n, stacks := goroutines(); n > before {
				t.Errorf("%d goroutines leaked:\n%s", n-before, stacks)
			}
		})
	}
}

// An orphan whose release fails or hangs does not delay the releases of other orphans, in the
// same batch or later.
func TestOrphanThatCannotBeReleased(t *testing.T) {
	const orphans = 200
	for name, fault := range map[string]func() drivertest.Fault{
		"fails": func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} },
		"hangs": func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} },
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store,
				on(drivertest.Acquire, drivertest.Fault{LoseReply: true}),
				// The others wait for the first, and travel with the failing one.
				on(drivertest.Release, drivertest.Fault{HoldReply: after(time.Second)}, 1),
				func(c drivertest.Call) drivertest.Fault {
					if c.Op == drivertest.Release {
						for _, ref := range c.Refs {
							if ref.Resource == "poison" {
								return fault()
							}
						}
					}
					return drivertest.Fault{}
				})
			c := newClient(t, f, &holdfast.Options{TTL: time.Hour})
			leave := func(resource string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if _, err := c.TryLock(ctx, resource, nil); err == nil {
					t.Error("an acquire was granted")
				}
			}
			var all sync.WaitGroup
			for i := range orphans {
				all.Go(func() {
					if leave(fmt.Sprint("r", i)); i == orphans/2 {
						leave("poison")
					}
				})
			}
			all.Wait()
			free := func(within time.Duration) {
				t.Helper()
				time.Sleep(within)
				synctest.Wait()
				left := 0
				for s, err := range store.List(t.Context(), holdfast.Filter{}) {
					if err != nil || s.Resource != "poison" {
						left++
					}
				}
				if left > 0 {
					t.Errorf("%d are blocked after %v", left, within)
				}
			}
			free(30 * time.Second)
			for range 5 {
				leave("later")
				free(time.Second)
			}
		})
	}
}

// An acquire that was under way when the Client was closed arrives a moment after the first
// release.
func TestCloseBeforeAcquireArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond} {
			store := memlock.New(nil)
			arrive := make(chan struct{})
			f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive}))
			c := holdfast.New(f, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Lock(ctx, "r", nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			time.AfterFunc(late, func() { close(arrive) })
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			mustBeFree(t, store, "r")
		}
	})
}

// Close neither shortens the delay of a release nor waits for it.
func TestCloseDuringDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		never := drivertest.Fault{HoldRequest: make(chan struct{}), LoseReply: true}
		f := faulty(t, store, on(drivertest.Acquire, never, 1)) // so that there is something to clean up
		c := holdfast.New(f, nil)
		h := lock(t, c, "r", nil)
		if err := h.UnlockAfter(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(10*time.Second - time.Since(began) - time.Millisecond)
		if len(holdsIn(t, store, "r")) != 1 {
			t.Error("Close ended the delay of UnlockAfter")
		}
		time.Sleep(time.Millisecond)
		mustBeFree(t, store, "r")
	})
}

// doubled is a store that repeats acquires when the test asks for it.
type doubled struct {
	*memlock.Store
	again chan struct{}
}

func (d doubled) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	go func() {
		<-d.again
		_, _ = d.Store.Acquire(context.WithoutCancel(ctx), q)
	}()
	return d.Store.Acquire(ctx, q)
}

// A copy of an acquire arrives after its hold was found and released.
func TestDoubledAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := make(chan struct{})
		store := memlock.New(nil)
		f := faulty(t, doubled{store, again}, on(drivertest.Acquire, drivertest.Fault{LoseReply: true}))
		c := newClient(t, f, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.TryLock(ctx, "r", &holdfast.LockOptions{TTL: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		mustBeFree(t, store, "r")
		close(again)
		synctest.Wait()
		if len(holdsIn(t, store, "r")) != 1 {
			t.Fatal("the copy did not arrive")
		}
		time.Sleep(6 * time.Second)
		mustBeFree(t, store, "r")
		n := f.Calls(drivertest.Release)
		time.Sleep(time.Hour)
		if more := f.Calls(drivertest.Release) - n; more != 0 {
			t.Errorf("the clean-up sent %d more releases", more)
		}
	})
}

// A copy of an acquire is under way while Close releases the hold.
func TestStrayAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1))
		c := unswept(f, nil)
		lock(t, c, "r", nil)
		time.AfterFunc(5*time.Millisecond, func() { close(arrive) })
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if f.Calls(drivertest.Release) < 2 {
			t.Error("the attempt did not arrive before the last release")
		}
		mustBeFree(t, store, "r")
	})
}

// One hold whose release fails or hangs does not delay the many that are released with it.
func TestReleasesShrink(t *testing.T) {
	const holds = 2500
	for way, release := range map[string]func(*testing.T, *holdfast.Client) error{
		"Close":     func(_ *testing.T, c *holdfast.Client) error { return c.Close() },
		"ReleaseID": func(t *testing.T, c *holdfast.Client) error { return second(c.Admin().ReleaseID(t.Context(), "id")) },
	} {
		for name, fault := range map[string]func() drivertest.Fault{
			"fails": func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} },
			"hangs": func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} },
		} {
			inBubble(t, way+", and one "+name, func(t *testing.T) {
				store := memlock.New(nil)
				f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
					if c.Op == drivertest.Release && slices.ContainsFunc(c.Refs, func(ref driver.HoldRef) bool { return ref.Resource == "poison" }) {
						return fault()
					}
					return drivertest.Fault{}
				})
				c := unswept(f, nil)
				t.Cleanup(func() { _ = c.Close() })
				for i := range holds {
					lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{LockID: "id"})
					if i == holds/2 {
						lock(t, c, "poison", &holdfast.LockOptions{LockID: "id"})
					}
				}
				began := time.Now()
				if err := release(t, c); err == nil || errors.Is(err, holdfast.ErrLost) {
					t.Errorf("got error %v", err)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				if n := len(holdsIn(t, store, "")); n > 16 {
					t.Errorf("%d holds stay", n)
				}
				if n := f.Calls(drivertest.Release); n > 1000 {
					t.Errorf("the store got %d calls", n)
				}
			})
		}
	}
}
