package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
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

func TestClose(t *testing.T) {
	inBubble(t, "releases", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := unswept(f, nil), newClient(t, store, nil)
		var holds []*holdfast.Hold
		for i := range 1500 {
			holds = append(holds, lock(t, c, fmt.Sprint(i), nil))
		}
		waiting := locking(t.Context(), d, "7", nil)
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if r := <-waiting; r.err != nil || r.at != began {
			t.Errorf("who waited was granted %v later, error %v", r.at.Sub(began), r.err)
		} else {
			unlock(t, r.hold)
		}
		mustBeFree(t, store, "")
		if n := f.Calls(drivertest.Release); n != 2 {
			t.Errorf("1,500 holds were released in %d calls, want 2", n)
		}
		for _, h := range holds {
			if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrClosed) {
				t.Fatalf("a hold's context ended with %v", cause)
			}
			if err := h.Unlock(t.Context()); err != nil {
				t.Fatalf("Unlock of what Close released: %v", err)
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
	})
	inBubble(t, "leaves, if it is to", func(t *testing.T) {
		store := memlock.New(nil)
		c, d := unswept(store, &holdfast.Options{LeaveHolds: true}), newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		time.Sleep(time.Minute)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrClosed) {
			t.Errorf("the context ended with %v", cause)
		}
		mustBeHeldBy(t, store, h)
		if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("Unlock of what is left: %v", err)
		}
		mustBeHeldBy(t, store, h)
		began := time.Now()
		lock(t, d, "r", nil)
		if took := time.Since(began); took > 30*time.Second+2*time.Millisecond {
			t.Errorf("the hold was renewed after Close: it blocked for %v", took)
		}
	})
	t.Run("returns what it could not release", func(t *testing.T) {
		for name, fault := range map[string]func() drivertest.Fault{
			"fails": func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} },
			"hangs": func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} },
		} {
			synctest.Test(t, func(t *testing.T) {
				f := faulty(t, memlock.New(nil), each(drivertest.Release, fault))
				c := unswept(f, nil)
				h := lock(t, c, "r", nil)
				began := time.Now()
				err := c.Close()
				if err == nil {
					t.Errorf("%s: no error", name)
				}
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("%s: Close took %v", name, took)
				}
				if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
					t.Errorf("%s: Unlock: %v", name, err)
				}
			})
		}
	})
	inBubble(t, "ends Done as it begins", func(t *testing.T) {
		c := unswept(faulty(t, memlock.New(nil), delayed(drivertest.Release, time.Second)), nil)
		h := lock(t, c, "r", nil)
		select {
		case <-c.Done():
			t.Error("Done is closed, but the Client is open")
		default:
		}
		closed := make(chan error)
		began := time.Now()
		go func() { closed <- c.Close() }()
		<-c.Done()
		if took := time.Since(began); took != 0 || h.Context().Err() == nil {
			t.Errorf("Done after %v, and the hold's context has ended: %v", took, h.Context().Err() != nil)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		<-c.Done()
	})
	inBubble(t, "twice at once", func(t *testing.T) {
		c := unswept(faulty(t, memlock.New(nil), delayed(drivertest.Release, time.Second)), nil)
		lock(t, c, "r", nil)
		began := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if time.Since(began) != time.Second {
					t.Error("a Close returned before the Client was closed")
				}
			})
		}
		all.Wait()
	})
	inBubble(t, "ends everything", func(t *testing.T) {
		f := faulty(t, memlock.New(nil))
		c := unswept(f, nil)
		h := lock(t, c, "r", nil)
		gone := lock(t, c, "gone", nil)
		if _, err := c.Admin().ForceRelease(t.Context(), "gone", gone.ID()); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		calls := f.Calls(drivertest.Acquire) + f.Calls(drivertest.List)
		for name, err := range map[string]error{
			"Lock":         second(c.Lock(t.Context(), "s", nil)),
			"TryRLock":     second(c.TryRLock(t.Context(), "s", nil)),
			"Renew":        h.Renew(t.Context(), 0),
			"ReleaseID":    second(c.Admin().ReleaseID(t.Context(), "id")),
			"RenewID":      second(c.Admin().RenewID(t.Context(), "id", time.Hour)),
			"ForceRelease": second(c.Admin().ForceRelease(t.Context(), "r", h.ID())),
			"Sweep":        second(c.Admin().Sweep(t.Context())),
			"Holds":        firstError(t.Context(), c),
		} {
			if !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("%s: got error %v, want ErrClosed", name, err)
			}
		}
		if n := f.Calls(drivertest.Acquire) + f.Calls(drivertest.List); n != calls {
			t.Error("a request was sent after Close")
		}
		if h.Left() != 0 {
			t.Errorf("the hold has %v left after Close", h.Left())
		}
		if err := gone.Unlock(t.Context()); !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("Unlock of a hold that was lost before: %v", err)
		}
	})
}

// Close during acquires, wherever they are: they return ErrClosed at once and leave nothing
// in the store.
func TestS15_close_during_acquire(t *testing.T) {
	for name, fault := range map[string]func() drivertest.Fault{
		"request hangs": func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} },
		"reply hangs":   func() drivertest.Fault { return drivertest.Fault{HoldReply: make(chan struct{})} },
		"replies fail":  func() drivertest.Fault { return drivertest.Fault{LoseReply: true} },
	} {
		for _, failing := range []int{0, 3} {
			inBubble(t, fmt.Sprintf("%s, %d releases fail", name, failing), func(t *testing.T) {
				store := memlock.New(nil)
				f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
					switch {
					case c.Op == drivertest.Acquire:
						return fault()
					case c.Op == drivertest.Release && c.N <= failing:
						return drivertest.Fault{LoseRequest: true}
					}
					return drivertest.Fault{}
				})
				c := unswept(f, nil)
				head := locking(t.Context(), c, "r", nil)
				synctest.Wait()
				next := locking(t.Context(), c, "r", nil)
				tried := running(func() (*holdfast.Hold, error) { return c.TryLock(t.Context(), "s", nil) })
				time.Sleep(5 * time.Millisecond)
				began := time.Now()
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("Close took %v", took)
				}
				for _, w := range []<-chan result{head, next, tried} {
					if r := <-w; !errors.Is(r.err, holdfast.ErrClosed) && !errors.Is(r.err, drivertest.ErrFault) || r.at.Sub(began) > time.Millisecond {
						t.Errorf("an acquire ended %v later with %v", r.at.Sub(began), r.err)
					}
				}
				mustBeFree(t, store, "")
			})
		}
	}
	inBubble(t, "held", func(t *testing.T) {
		store := memlock.New(nil)
		c, d := unswept(store, nil), newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		head := locking(t.Context(), c, "r", nil)
		next := locking(t.Context(), c, "r", nil)
		time.Sleep(time.Minute)
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, w := range []<-chan result{head, next} {
			if r := <-w; !errors.Is(r.err, holdfast.ErrClosed) || r.at != began {
				t.Errorf("a wait ended %v later with %v", r.at.Sub(began), r.err)
			}
		}
		mustBeHeldBy(t, store, h)
	})
	t.Run("granted that moment", func(t *testing.T) {
		// The grant arrives after Close began, before or after the end of the Client's scope.
		// In both cases the store must not keep the hold.
		for range 100 {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				c := unswept(faulty(t, store, delayed(drivertest.Acquire, time.Second)), nil)
				got := locking(t.Context(), c, "r", nil)
				time.Sleep(time.Second)
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if r := <-got; r.err != nil && !errors.Is(r.err, holdfast.ErrClosed) {
					t.Error(r.err)
				} else if r.err == nil && r.hold.Context().Err() == nil {
					t.Error("a hold lives on after Close")
				}
				mustBeFree(t, store, "r")
			})
		}
	})
}

// Close does not wait for a store that does not answer, whatever the call.
func TestCloseEndsWhatHangs(t *testing.T) {
	for name, call := range map[string]func(context.Context, *holdfast.Client, *holdfast.Hold) error{
		"Holds": func(ctx context.Context, c *holdfast.Client, _ *holdfast.Hold) error { return firstError(ctx, c) },
		"Sweep": func(ctx context.Context, c *holdfast.Client, _ *holdfast.Hold) error {
			return second(c.Admin().Sweep(ctx))
		},
		"ReleaseID": func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error {
			return second(c.Admin().ReleaseID(ctx, h.LockID()))
		},
		"RenewID": func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error {
			return second(c.Admin().RenewID(ctx, h.LockID(), time.Hour))
		},
		"Renew": func(ctx context.Context, _ *holdfast.Client, h *holdfast.Hold) error { return h.Renew(ctx, 0) },
		"TryLock": func(ctx context.Context, c *holdfast.Client, _ *holdfast.Hold) error {
			return second(c.TryLock(ctx, "s", nil))
		},
		"Lock": func(ctx context.Context, c *holdfast.Client, _ *holdfast.Hold) error {
			return second(c.Lock(ctx, "s", nil))
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			never := make(chan struct{})
			var down atomic.Bool
			f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
				if down.Load() && c.Op != drivertest.Release {
					return drivertest.Fault{HoldRequest: never}
				}
				return drivertest.Fault{}
			})
			c := unswept(f, nil)
			h := lock(t, c, "r", nil)
			down.Store(true)
			failed := make(chan error, 1)
			go func() { failed <- call(context.Background(), c, h) }()
			synctest.Wait()
			began := time.Now()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 6*time.Second {
				t.Errorf("Close took %v", took)
			}
			if err := <-failed; err == nil {
				t.Error("the call succeeded")
			}
		})
	}
}

// All operations at once on a bad network, and then Close: no call hangs, no goroutine leaks,
// and the store keeps only holds that expire.
func TestS17_no_goroutine_left(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			before, _ := goroutines()
			store := memlock.New(nil)
			f := drivertest.NewFaultStore(store, drivertest.RandomFaults(seed, 20))
			c := unswept(f, &holdfast.Options{TTL: 2 * time.Second})
			var all sync.WaitGroup
			for i := range 60 {
				all.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, uint64(i)))
					upTo := func(d time.Duration) time.Duration { return time.Duration(1 + rnd.Int64N(int64(d))) }
					for {
						ctx, cancel := context.WithTimeout(context.Background(), upTo(3*time.Second))
						err := oneOfAll(ctx, c, rnd)
						cancel()
						if errors.Is(err, holdfast.ErrClosed) {
							return
						}
						time.Sleep(upTo(100 * time.Millisecond))
					}
				})
			}
			time.Sleep(time.Duration(seed) * 3 * time.Second)
			began := time.Now()
			_ = c.Close() // some releases may have failed
			if took := time.Since(began); took > 11*time.Second {
				t.Errorf("Close took %v", took)
			}
			all.Wait()
			calls := f.Calls(drivertest.Renew)
			time.Sleep(time.Minute)
			mustBeFree(t, store, "")
			if f.Calls(drivertest.Renew) != calls {
				t.Error("a hold is renewed after Close")
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if n, stacks := goroutines(); n > before {
				t.Errorf("%d goroutines, %d before the test:\n%s", n, before, stacks)
			}
		})
	}
}

// goroutines counts the live goroutines. runtime.NumGoroutine also counts, for a moment,
// goroutines that have ended.
func goroutines() (n int, stacks string) {
	buf := make([]byte, 1<<20)
	stacks = string(buf[:runtime.Stack(buf, true)])
	return strings.Count("\n\n"+stacks, "\n\ngoroutine "), stacks
}

// oneOfAll calls a random operation of the Client.
func oneOfAll(ctx context.Context, c *holdfast.Client, rnd *rand.Rand) error {
	resource, id := fmt.Sprint(rnd.IntN(5)), fmt.Sprint("id ", rnd.IntN(5))
	o := &holdfast.LockOptions{NoKeepAlive: rnd.IntN(4) == 0, TTL: time.Duration(rnd.IntN(3)) * time.Second}
	if rnd.IntN(2) == 0 {
		o.LockID = id
	}
	take := []func(context.Context, string, *holdfast.LockOptions) (*holdfast.Hold, error){c.Lock, c.TryLock, c.RLock, c.TryRLock}
	switch rnd.IntN(10) {
	case 0:
		return second(c.Admin().ReleaseID(ctx, id))
	case 1:
		return second(c.Admin().RenewID(ctx, id, 3*time.Second))
	case 2:
		return second(c.Admin().ForceRelease(ctx, resource, holdfast.HoldID{}))
	case 3:
		return second(c.Admin().Sweep(ctx))
	case 4:
		return firstError(ctx, c)
	case 5:
		return c.Do(ctx, resource, o, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	}
	h, err := take[rnd.IntN(len(take))](ctx, resource, o)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(rnd.IntN(3)) * time.Second)
	if rnd.IntN(2) == 0 {
		_ = h.Renew(ctx, 0)
	}
	switch rnd.IntN(3) {
	case 0:
		return h.UnlockAfter(ctx, time.Second)
	case 1:
		return nil // not unlocked: renewed until Close
	}
	return h.Unlock(ctx)
}

// Close takes at most 5 s, whatever is under way.
func TestCloseIsBounded(t *testing.T) {
	orphans := func(wait time.Duration) func(*testing.T, *holdfast.Client) {
		return func(t *testing.T, c *holdfast.Client) {
			lock(t, c, "held", &holdfast.LockOptions{TTL: time.Hour})
			for i := range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := c.TryLock(ctx, fmt.Sprint("orphan ", i), nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("TryLock: %v", err)
				}
			}
			time.Sleep(wait)
		}
	}
	held := func(held, inDo int) func(*testing.T, *holdfast.Client) {
		return func(t *testing.T, c *holdfast.Client) {
			for i := range held {
				lock(t, c, fmt.Sprint("held ", i), nil)
			}
			stop := make(chan struct{})
			t.Cleanup(func() {
				close(stop)
				time.Sleep(time.Minute)
			})
			for i := range inDo {
				go func() {
					_ = c.Do(context.Background(), fmt.Sprint("do ", i), nil, func(context.Context) error { <-stop; return nil })
				}()
			}
			synctest.Wait()
		}
	}
	const unlocking = "an Unlock under way" // it returns the error of its release itself
	for name, begin := range map[string]func(*testing.T, *holdfast.Client){
		"orphans":                        orphans(0),
		"orphans, while one is released": orphans(2 * time.Second),
		"orphans, while releases fail":   orphans(12 * time.Second),
		"many holds":                     held(5000, 0),
		"one hold, and one in Do":        held(1, 1),
		"one hold, and many in Do":       held(1, 2000),
		"many in Do":                     held(0, 2000),
		unlocking: func(t *testing.T, c *holdfast.Client) {
			h := lock(t, c, "r", nil)
			go func() { _ = h.Unlock(context.Background()) }()
			time.Sleep(time.Second)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Release || c.Op == drivertest.Acquire && strings.HasPrefix(c.Refs[0].Resource, "orphan") {
					return drivertest.Fault{HoldRequest: make(chan struct{})}
				}
				return drivertest.Fault{}
			})
			c := unswept(f, nil)
			begin(t, c)
			began := time.Now()
			if err := c.Close(); err == nil && name != unlocking {
				t.Error("Close returned nil, but a hold was not released")
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("Close took %v", took)
			}
		})
	}
	inBubble(t, "a loop over Holds", func(t *testing.T) {
		store := &closing{Store: memlock.New(nil)}
		register(t, "test-loop", store)
		c, err := holdfast.Open(t.Context(), "test-loop:", nil)
		if err != nil {
			t.Fatal(err)
		}
		lock(t, c, "r", nil)
		goOn := make(chan struct{})
		go func() {
			for _, err := range c.Admin().Holds(t.Context(), holdfast.Filter{}) {
				if err != nil {
					t.Error(err)
				}
				<-goOn
			}
		}()
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("Close took %v, error %v", time.Since(began), err)
		}
		if store.closed.Load() {
			t.Error("the store was closed during the loop")
		}
		close(goOn)
		synctest.Wait()
		if !store.closed.Load() {
			t.Error("the store was not closed")
		}
	})
}

// A store that ignores the context of a release does not delay Close.
func TestCloseOfDeafStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deafToReleases{memlock.New(nil), make(chan struct{})}
		c := unswept(d, nil)
		h := lock(t, c, "r", nil)
		began := time.Now()
		err := c.Close()
		if took := time.Since(began); err == nil || took > 5*time.Second {
			t.Errorf("Close took %v, error %v", took, err)
		}
		if h.Context().Err() == nil {
			t.Error("the context of the hold is alive")
		}
		close(d.until)
	})
}

type deafToReleases struct {
	*memlock.Store
	until chan struct{}
}

func (d *deafToReleases) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	<-d.until
	return d.Store.Release(ctx, qs)
}

type closing struct {
	*memlock.Store
	closed atomic.Bool
}

func (c *closing) Close() error { c.closed.Store(true); return c.Store.Close() }

// Close ends the ctx of a function of Do, and gives the function time to return before it
// releases the hold.
func TestCloseUnderDo(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Second, time.Minute} {
		for _, leave := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%v, leave %v", takes, leave), func(t *testing.T) {
				store := memlock.New(nil)
				f := faulty(t, store)
				var released atomic.Int32
				trace := &holdfast.Trace{Released: func(context.Context, holdfast.CallInfo) { released.Add(1) }}
				c, d := unswept(f, &holdfast.Options{LeaveHolds: leave, Trace: trace}), newClient(t, store, nil)
				var ended atomic.Pointer[time.Time]
				done := make(chan error)
				go func() {
					done <- c.Do(t.Context(), "r", nil, func(ctx context.Context) error {
						<-ctx.Done()
						if !errors.Is(context.Cause(ctx), holdfast.ErrClosed) {
							t.Errorf("its ctx ended with %v", context.Cause(ctx))
						}
						time.Sleep(takes) // it needs time to stop
						now := time.Now()
						ended.Store(&now)
						return nil
					})
				}()
				other := lock(t, c, "other", nil)
				synctest.Wait()
				successor := locking(t.Context(), d, "r", nil)
				free := locking(t.Context(), d, "other", nil)
				synctest.Wait()
				began := time.Now()
				err := c.Close()
				took := time.Since(began)
				if want := min(takes, 5*time.Second); took != want || (err == nil) != (takes < time.Minute) {
					t.Errorf("Close took %v, error %v", took, err)
				}
				r := <-successor
				switch {
				case r.err != nil:
					t.Error(r.err)
				case leave:
					if wait := r.at.Sub(began); wait < 29*time.Second {
						t.Errorf("granted to another after %v despite LeaveHolds", wait)
					}
				case takes > 3*time.Second:
					if wait := r.at.Sub(began); wait != 3*time.Second {
						t.Errorf("released after %v", wait)
					}
				case ended.Load() == nil || r.at.Before(*ended.Load()):
					t.Error("granted to another while fn ran")
				}
				if r := <-free; r.err != nil || !leave && r.at != began {
					t.Errorf("a hold without Do was released after %v, error %v", r.at.Sub(began), r.err)
				}
				if err := <-done; !errors.Is(err, holdfast.ErrClosed) {
					t.Errorf("Do: %v", err)
				}
				mustEnd(t, other, time.Millisecond, holdfast.ErrClosed)
				want := 2 // each hold once
				if leave {
					want = 0
				}
				if calls, told := f.Calls(drivertest.Release), released.Load(); calls != want || int(told) != want {
					t.Errorf("two holds were released in %d calls, and the Trace was told %d times", calls, told)
				}
			})
		}
	}
}

// Close renews the hold of a function of Do for as long as it waits for the function.
func TestCloseKeepsAlive(t *testing.T) {
	hang := func(drivertest.Call) drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} }
	fail := func(drivertest.Call) drivertest.Fault { return drivertest.Fault{LoseRequest: true} }
	for _, ttl := range []time.Duration{500 * time.Millisecond, 2 * time.Second, 30 * time.Second, holdfast.Forever} {
		for name, test := range map[string]struct {
			takes     time.Duration // the time that fn takes after its ctx has ended
			noRenewal bool          // LockOptions.NoKeepAlive
			leave     bool
			op        drivertest.Op // the operation with the fault, from Close on
			fault     rule
			freeAfter time.Duration // at most, after the end of fn
			loses     bool          // a hold with a short TTL is lost
			closeIn   time.Duration // at most, after the end of fn and a clean-up
		}{
			"fn returns":                       {takes: 2900 * time.Millisecond},
			"fn returns, LeaveHolds":           {takes: 2900 * time.Millisecond, leave: true, freeAfter: ttl},
			"not renewed":                      {takes: 2900 * time.Millisecond, noRenewal: true, loses: true},
			"renewals fail":                    {takes: 2900 * time.Millisecond, op: drivertest.Renew, fault: fail, loses: true},
			"renewals hang":                    {takes: 2900 * time.Millisecond, op: drivertest.Renew, fault: hang, loses: true},
			"renewals hang, fn returns sooner": {takes: 400 * time.Millisecond, op: drivertest.Renew, fault: hang, loses: ttl < time.Second},
			"releases hang":                    {takes: 2900 * time.Millisecond, op: drivertest.Release, fault: hang, freeAfter: ttl, closeIn: 2100 * time.Millisecond},
		} {
			if ttl == holdfast.Forever && (test.leave || test.op == drivertest.Release) {
				continue // the resource is never granted again
			}
			inBubble(t, fmt.Sprintf("%v, %s", min(ttl, time.Hour), name), func(t *testing.T) {
				store := memlock.New(nil)
				var closing atomic.Bool
				f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
					if closing.Load() && c.Op == test.op && test.fault != nil {
						return test.fault(c)
					}
					return drivertest.Fault{}
				})
				c, d := unswept(f, &holdfast.Options{LeaveHolds: test.leave}), newClient(t, store, nil)
				var ended time.Time
				done := make(chan error, 1)
				go func() {
					o := &holdfast.LockOptions{TTL: ttl, NoKeepAlive: test.noRenewal}
					done <- c.Do(t.Context(), "r", o, func(ctx context.Context) error {
						<-ctx.Done()
						if cause := context.Cause(ctx); !errors.Is(cause, holdfast.ErrClosed) {
							t.Errorf("the ctx ended with %v", cause)
						}
						if left := holdfast.HoldOf(ctx).Left(); left != 0 {
							t.Errorf("the hold has %v left after Close", left)
						}
						time.Sleep(test.takes)
						ended = time.Now()
						return nil
					})
				}()
				synctest.Wait()
				if test.noRenewal {
					time.Sleep(100 * time.Millisecond)
				} else {
					time.Sleep(time.Minute + 100*time.Millisecond)
				}
				next := locking(t.Context(), d, "r", nil)
				synctest.Wait()
				closing.Store(true)
				err := c.Close()
				closed := time.Now()
				doErr := <-done
				r := <-next
				if r.err != nil {
					t.Fatal(r.err)
				}
				if late := closed.Sub(ended); late > test.closeIn+20*time.Millisecond {
					t.Errorf("Close ended %v after fn, error %v", late, err)
				}
				if test.loses && ttl < 3*time.Second {
					if !errors.Is(doErr, holdfast.ErrLost) || r.at.After(ended.Add(ttl)) {
						t.Errorf("granted %v after fn's end, Do: %v", r.at.Sub(ended), doErr)
					}
					return
				}
				if after := r.at.Sub(ended); after < 0 || after > test.freeAfter && after-test.freeAfter > 2*time.Millisecond {
					t.Errorf("granted to another %v after fn's end", after)
				}
				if test.fault == nil && !errors.Is(doErr, holdfast.ErrClosed) {
					t.Errorf("Do: %v", doErr)
				}
			})
		}
	}
}

// deafAcquires is a store that answers acquires when it wants, even if their contexts have
// ended.
type deafAcquires struct {
	driver.Store
	answer chan struct{}
}

func (s *deafAcquires) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.Store.Acquire(context.WithoutCancel(ctx), q)
	<-s.answer
	return g, err
}

// A grant that arrives after Close has released the holds is released too.
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
				t.Fatal("the acquire was not granted")
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

// Do does not call its function if Close releases the lock first.
func TestCloseBeforeDoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := unswept(store, nil)
		h := lock(t, c, "r", nil)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		err := holdfast.RunDo(t.Context(), c, h, func(context.Context) error {
			t.Error("Do called fn")
			return nil
		})
		if !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("error %v", err)
		}
		mustBeFree(t, store, "")
	})
}
