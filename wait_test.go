package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// watching is a store with a Watch of the test.
type watching struct {
	*memlock.Store
	watch func(ctx context.Context, resource string) (<-chan struct{}, error)
}

func (w watching) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	return w.watch(ctx, resource)
}

// A release between the first attempt and the start of the subscription gives no signal: the
// attempt after it must notice the release.
func TestS28_no_lost_wakeup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		d := newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		c := newClient(t, watching{store, func(ctx context.Context, resource string) (<-chan struct{}, error) {
			unlock(t, h)
			return store.Watch(ctx, resource)
		}}, nil)
		began := time.Now()
		lock(t, c, "r", nil)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the release was noticed after %v", waited)
		}
	})
}

// Refusals wake nobody, however many there are.
func TestS28a_refused_do_not_wake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		holder := newClient(t, store, nil)
		lock(t, holder, "r", nil)
		signals, err := store.Watch(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const clients = 5
		var waits []<-chan result
		for range clients {
			c := newClient(t, f, nil)
			waits = append(waits, locking(ctx, c, "r", nil))
			for range 10 {
				_, err := c.TryLock(ctx, "r", nil)
				mustBeHeld(t, err)
			}
		}
		for _, w := range waits {
			mustBeHeld(t, (<-w).err)
		}
		if len(signals) != 0 {
			t.Error("a refusal was signalled")
		}
		// Each waiter asks at most once a second, and twice at the beginning.
		if n := f.Calls(drivertest.Acquire); n > clients*(10+2+60) {
			t.Errorf("%d acquires of %d waiters in a minute", n, clients)
		}
	})
}

// A stream of signals that breaks, is late or does not work delays a waiter by at most one
// back-off.
func TestS29_stream_cut(t *testing.T) {
	const poll, lull, hang = 750 * time.Millisecond, 15 * time.Second, 3 * time.Second // at most
	for name, test := range map[string]struct {
		fault func() drivertest.Fault
		most  time.Duration // how long a release may go unnoticed
		calls int           // of Watch; 0: any number
		deaf  time.Duration // how long it keeps the waiter from looking at the time
	}{
		"well":        {func() drivertest.Fault { return drivertest.Fault{} }, 0, 1, 0},
		"cut":         {func() drivertest.Fault { return drivertest.Fault{Cut: after(time.Second)} }, poll, 1, 0},
		"cut at once": {func() drivertest.Fault { return drivertest.Fault{Cut: after(0)} }, poll, 1, 0},
		"late":        {func() drivertest.Fault { return drivertest.Fault{HoldSignals: make(chan struct{})} }, lull, 1, 0},
		"fails":       {func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} }, poll, 0, 0},
		"unsupported": {func() drivertest.Fault { return drivertest.Fault{LoseRequest: true, Err: driver.ErrUnsupported} }, poll, 1, 0},
		"hangs":       {func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} }, hang, 0, 2 * time.Second},
		"reply hangs": {func() drivertest.Fault { return drivertest.Fault{HoldReply: make(chan struct{})} }, hang, 0, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for _, released := range []time.Duration{500 * time.Millisecond, 30300 * time.Millisecond} {
				synctest.Test(t, func(t *testing.T) {
					store := memlock.New(nil)
					f := faulty(t, store, each(drivertest.Watch, test.fault))
					c, d := newClient(t, f, nil), newClient(t, store, nil)
					h := lock(t, d, "r", nil)
					got := locking(t.Context(), c, "r", nil)
					time.Sleep(released)
					at := time.Now()
					unlock(t, h)
					r := <-got
					if r.err != nil {
						t.Fatal(r.err)
					}
					if late := r.at.Sub(at); late > test.most {
						t.Errorf("a release after %v was noticed %v later, want at most %v", released, late, test.most)
					}
					if n := f.Calls(drivertest.Watch); test.calls != 0 && n != test.calls {
						t.Errorf("%d calls of Watch, want %d", n, test.calls)
					}
				})
			}
			// The waiter knows when the hold expires and needs no signal.
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				f := faulty(t, store, each(drivertest.Watch, test.fault))
				c, d := newClient(t, f, nil), newClient(t, store, nil)
				lock(t, d, "r", &holdfast.LockOptions{TTL: 10 * time.Second, NoKeepAlive: true})
				began := time.Now()
				lock(t, c, "r", nil)
				if took := time.Since(began); took > 10*time.Second+2*time.Millisecond+test.deaf {
					t.Errorf("granted after %v, but the hold expired after 10 s", took)
				}
			})
		})
	}
}

// A store that cannot watch.
func TestWaitWithoutWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, struct{ driver.Store }{store}, nil)
		d := newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		got := locking(t.Context(), c, "r", nil)
		time.Sleep(time.Minute)
		at := time.Now()
		unlock(t, h)
		if r := <-got; r.err != nil || r.at.Sub(at) > 750*time.Millisecond {
			t.Errorf("noticed %v later, error %v", r.at.Sub(at), r.err)
		}
	})
}

// All waiters of one process cost the store as much as one.
func TestS30_thousand_waiters(t *testing.T) {
	perHandOver := func(waiters int) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store)
			c, d := newClient(t, f, nil), newClient(t, store, nil)
			h := lock(t, d, "r", nil)
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() {
					h, err := c.Lock(t.Context(), "r", nil)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					unlock(t, h)
				})
			}
			synctest.Wait()
			if n := f.Calls(drivertest.Acquire); n != 2 {
				t.Errorf("%d waiters made %d acquires before the first hand-over, want 2", waiters, n)
			}
			unlock(t, h)
			all.Wait()
			for _, op := range []drivertest.Op{drivertest.Acquire, drivertest.Watch, drivertest.Release, drivertest.Renew} {
				calls += f.Calls(op)
			}
			calls = (calls + waiters - 1) / waiters
		})
		return calls
	}
	// One attempt before and one after the subscription, the grant and the release. Sometimes
	// a release is signalled twice, by the store and by the Client.
	if few, many := perHandOver(10), perHandOver(1000); few > 6 || many > 6 {
		t.Errorf("a hand-over takes %d calls of the store with 10 waiters, %d with 1,000; want at most 6", few, many)
	}
}

func TestS31_waiter_times_out(t *testing.T) {
	inBubble(t, "in line", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := newClient(t, f, nil), newClient(t, store, &holdfast.Options{Owner: "bob"})
		h := lock(t, d, "r", nil)
		head := locking(t.Context(), c, "r", nil)
		synctest.Wait()
		gone := errors.New("own reasons")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		second := locking(ctx, c, "r", nil)
		synctest.Wait()
		third := locking(t.Context(), c, "r", nil)
		r := <-second
		held := heldError(t, r.err)
		if !errors.Is(r.err, context.DeadlineExceeded) || !strings.Contains(r.err.Error(), gone.Error()) {
			t.Errorf("got error %v, want that of ctx as well", r.err)
		}
		if held.BySelf || len(held.Holders) != 1 || held.Holders[0].Owner != "bob" {
			t.Errorf("got %+v", held)
		}
		calls := f.Calls(drivertest.Acquire)
		at := time.Now()
		unlock(t, h)
		r = <-head
		if r.err != nil || r.at != at {
			t.Fatal(r)
		}
		unlock(t, r.hold)
		if r := <-third; r.err != nil || r.at != at {
			t.Fatal(r)
		}
		if n := f.Calls(drivertest.Acquire) - calls; n > 5 {
			t.Errorf("the Client sent %d acquires for two grants", n)
		}
	})
	for name, fault := range map[string]func() drivertest.Fault{
		"head, waiting": func() drivertest.Fault { return drivertest.Fault{} },
		"head, asking":  func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} },
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Acquire && c.N == 2 {
					return fault()
				}
				return drivertest.Fault{}
			})
			c, d := newClient(t, f, nil), newClient(t, store, nil)
			h := lock(t, d, "r", nil)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			head := locking(ctx, c, "r", nil)
			synctest.Wait()
			longer, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			next := locking(longer, c, "r", nil)
			r := <-head
			mustBeHeld(t, r.err)
			if !errors.Is(r.err, context.DeadlineExceeded) {
				t.Errorf("got error %v, want that of ctx as well", r.err)
			}
			at := time.Now()
			unlock(t, h)
			if r := <-next; r.err != nil || r.at.Sub(at) > time.Second {
				t.Errorf("the next in line was granted %v later, error %v", r.at.Sub(at), r.err)
			}
		})
	}
	t.Run("as its turn comes", func(t *testing.T) {
		// Nothing was sent yet, but it was a wait all the same.
		for range 50 {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				ctx, cancel := context.WithCancel(t.Context())
				c := newClient(t, store, &holdfast.Options{Trace: &holdfast.Trace{
					HoldStart: func(ctx context.Context, _ holdfast.HoldInfo) context.Context { cancel(); return ctx },
				}})
				d := newClient(t, store, nil)
				h := lock(t, d, "r", nil)
				head := locking(t.Context(), c, "r", nil)
				synctest.Wait()
				next := locking(ctx, c, "r", nil)
				synctest.Wait()
				unlock(t, h)
				granted(t, head)
				r := <-next
				if held := heldError(t, r.err); !errors.Is(r.err, context.Canceled) || held.BySelf {
					t.Fatalf("got %+v", held)
				}
			})
		}
	})
	inBubble(t, "behind one that waited for itself", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{HoldRequest: make(chan struct{})}, 3),
			delayed(drivertest.Acquire, time.Second))
		c := newClient(t, f, nil)
		own := &holdfast.LockOptions{LockID: "own"}
		lock(t, c, "r", own)
		head := locking(t.Context(), c, "r", own)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var others []<-chan result
		for range 2 {
			others = append(others, locking(ctx, c, "r", nil))
			synctest.Wait()
		}
		if held := heldError(t, (<-head).err); !held.BySelf {
			t.Errorf("got %+v", held)
		}
		<-others[0]
		if held := heldError(t, (<-others[1]).err); held.BySelf {
			t.Errorf("Lock took the other's hold for its own: %+v", held)
		}
	})
}

// A plain refusal has no cause and does not match the error of a ctx.
func TestHeldIsNotAnEndOfCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memlock.New(nil), nil)
		lock(t, c, "r", nil)
		_, err := c.TryLock(t.Context(), "r", nil)
		if held := heldError(t, err); held.Cause != nil || errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// Waiters are served in the order of their arrival, whatever their modes.
func TestLineIsFIFO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		for i, mode := range []holdfast.Mode{
			holdfast.Exclusive, holdfast.Shared, holdfast.Shared, holdfast.Exclusive, holdfast.Shared, holdfast.Exclusive,
		} {
			all.Go(func() {
				take := c.Lock
				if mode == holdfast.Shared {
					take = c.RLock
				}
				h, err := take(t.Context(), "r", nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, fmt.Sprint(i, mode))
				mu.Unlock()
				time.Sleep(time.Minute)
				unlock(t, h)
			})
			synctest.Wait()
		}
		began := time.Now()
		unlock(t, h)
		all.Wait()
		want := []string{"0 exclusive", "1 shared", "2 shared", "3 exclusive", "4 shared", "5 exclusive"}
		slices.Sort(order[1:3]) // they are granted together
		if !slices.Equal(order, want) {
			t.Errorf("granted in the order %v", order)
		}
		if took := time.Since(began); took != 5*time.Minute {
			t.Errorf("took %v, want 5 min: the two that share do so at once", took)
		}
	})
}

func TestTryPassesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		if _, err := d.TryRLock(t.Context(), "r", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		writer := locking(ctx, c, "r", nil)
		synctest.Wait()
		reader := running(func() (*holdfast.Hold, error) { return c.RLock(ctx, "r", nil) })
		synctest.Wait()
		began := time.Now()
		h, err := c.TryRLock(ctx, "r", nil)
		if err != nil {
			t.Errorf("TryRLock beside a shared hold: %v", err)
		} else {
			unlock(t, h)
		}
		_, err = c.TryLock(ctx, "r", nil)
		mustBeHeld(t, err)
		if time.Since(began) != 0 || len(writer) != 0 || len(reader) != 0 {
			t.Error("TryLock waited, or Lock did not")
		}
		cancel()
		<-writer
		<-reader
	})
}

// Goroutines that wait for one resource and leave in any order leave nothing behind that
// affects later waiters.
func TestLineUnderChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		var inside [3]int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				client, resource := c, i%len(inside)
				if i%7 == 0 {
					client = d
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50)*20*time.Millisecond+time.Millisecond)
				defer cancel()
				var o *holdfast.LockOptions
				if i%5 == 0 {
					o = &holdfast.LockOptions{LockID: fmt.Sprint("group ", i%3)}
				}
				h, err := client.Lock(ctx, fmt.Sprint(resource), o)
				if err != nil {
					if held := mustBeHeldOrDead(t, err); held != nil && !held.BySelf && ctx.Err() == nil {
						t.Errorf("gave up before its time: %v", err)
					}
					return
				}
				mu.Lock()
				inside[resource]++
				if inside[resource] != 1 {
					t.Errorf("%d goroutines hold the lock", inside[resource])
				}
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				mu.Lock()
				inside[resource]--
				mu.Unlock()
				unlock(t, h)
			})
		}
		all.Wait()
		began := time.Now()
		for i := range inside {
			h := lock(t, c, fmt.Sprint(i), nil)
			unlock(t, h)
		}
		if time.Since(began) != 0 {
			t.Errorf("a free resource took %v", time.Since(began))
		}
	})
}

// mustBeHeldOrDead accepts the errors of a Lock whose ctx has ended.
func mustBeHeldOrDead(t *testing.T, err error) *holdfast.HeldError {
	t.Helper()
	var held *holdfast.HeldError
	if !errors.As(err, &held) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v", err)
	}
	return held
}

// An invitation is not lost if the ctx of its waiter ends at the same moment.
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

// deaf is a store without signals that counts its acquires.
type deaf struct {
	driver.Store
	asked atomic.Int64
}

func (d *deaf) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	d.asked.Add(1)
	return d.Store.Acquire(ctx, q)
}

func (d *deaf) Traits() driver.Traits {
	t := d.Store.Traits()
	t.Notifies = false
	return t
}

// A store without signals is polled as often as Options.Poll says.
func TestPoll(t *testing.T) {
	for poll, want := range map[time.Duration][2]int64{
		0:                     {15, 45}, // in 10 s, with pauses of 50% to 150%
		2 * time.Second:       {5, 25},  // which begins with a short one
		10 * time.Millisecond: {900, 1200},
		time.Millisecond:      {9000, 12000},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &deaf{Store: memlock.New(nil)}
			holder, waiter := holdfast.New(s, nil), holdfast.New(s, &holdfast.Options{Poll: poll})
			defer holder.Close()
			defer waiter.Close()
			if _, err := holder.TryLock(t.Context(), "r", nil); err != nil {
				t.Fatal(err)
			}
			before := s.asked.Load()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := waiter.Lock(ctx, "r", nil); !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("error %v", err)
			}
			if n := s.asked.Load() - before; n < want[0] || n > want[1] {
				t.Errorf("Poll %v: asked %d times, want %d to %d", poll, n, want[0], want[1])
			}
		})
	}
}

// In a store without signals the head of the queue gets a lock that was held for long as soon
// as an unordered waiter does.
func TestFairPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &deaf{Store: memlock.New(nil)}
		h := lock(t, newClient(t, s, nil), "r", nil)
		first := locking(t.Context(), newClient(t, s, nil), "r", fairly("first"))
		time.Sleep(time.Second)
		second := locking(t.Context(), newClient(t, s, nil), "r", fairly("second"))
		time.Sleep(50 * time.Second)
		freed := time.Now()
		unlock(t, h)
		for i, next := range []<-chan result{first, second} {
			r := <-next
			if idle := r.at.Sub(freed); idle > time.Duration(i+1)*600*time.Millisecond {
				t.Errorf("waiter %d: the resource was free for %v", i, idle)
			}
			unlock(t, r.hold)
			freed = r.at
		}
	})
}

// A Watch that ignores its ctx delays nobody: neither beyond the end of the caller's ctx nor
// beyond the expiry of the hold. While one hangs, no other begins.
func TestWatchThatIsDeaf(t *testing.T) {
	deaf := func(t *testing.T) (*memlock.Store, *holdfast.Client, *atomic.Int32) {
		store, fixed, calls := memlock.New(nil), make(chan struct{}), new(atomic.Int32)
		c := unswept(watching{store, func(context.Context, string) (<-chan struct{}, error) {
			calls.Add(1)
			<-fixed
			return nil, errors.New("not subscribed")
		}}, nil)
		t.Cleanup(func() {
			_ = c.Close() // it returns that a call of the store is still running
			close(fixed)
		})
		return store, c, calls
	}
	inBubble(t, "the ctx ends", func(t *testing.T) {
		store, c, calls := deaf(t)
		lock(t, newClient(t, store, nil), "r", nil)
		for _, wait := range []time.Duration{time.Second, time.Minute, time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			began := time.Now()
			_, err := c.Lock(ctx, "r", nil)
			mustBeHeld(t, err)
			if took := time.Since(began); took != wait {
				t.Errorf("Lock took %v, its ctx ended after %v", took, wait)
			}
		}
		if n := calls.Load(); n != 2 { // the second began before the first was known to hang
			t.Errorf("%d calls of Watch, want 2", n)
		}
	})
	inBubble(t, "the holder unlocks", func(t *testing.T) {
		store, c, _ := deaf(t)
		h := lock(t, newClient(t, store, nil), "r", nil)
		got := locking(t.Context(), c, "r", nil)
		time.Sleep(1500 * time.Millisecond) // and not when it takes a place
		at := time.Now()
		unlock(t, h)
		if r := <-got; r.err != nil || r.at.Sub(at) > 4*time.Second {
			t.Errorf("noticed %v later, error %v", r.at.Sub(at), r.err)
		}
	})
	inBubble(t, "Close", func(t *testing.T) {
		store, c, _ := deaf(t)
		lock(t, newClient(t, store, nil), "r", nil)
		got := locking(t.Context(), c, "r", nil)
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err == nil {
			t.Error("Close does not return that a call of the store is still running")
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
		if r := <-got; !errors.Is(r.err, holdfast.ErrClosed) || r.at != began {
			t.Errorf("the wait ended %v later with %v", r.at.Sub(began), r.err)
		}
	})
}

// Waiters for many resources wake their process at most once a second while nothing happens.
// A waiter that gets a signal does not wait for that.
func TestWaitersKeepStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resources = 200
		store := memlock.New(nil)
		holder := newClient(t, store, nil)
		var mu sync.Mutex
		moments := make(map[time.Time]int) // the times at which attempts were answered
		c := newClient(t, store, &holdfast.Options{Trace: &holdfast.Trace{AttemptEnd: func(context.Context, holdfast.AttemptInfo) {
			mu.Lock()
			defer mu.Unlock()
			moments[time.Now()]++
		}}})
		ctx, cancel := context.WithCancel(t.Context())
		var holds []*holdfast.Hold
		var waiting sync.WaitGroup
		for i := range resources {
			resource := fmt.Sprint(i)
			holds = append(holds, lock(t, holder, resource, &holdfast.LockOptions{TTL: time.Hour}))
			waiting.Go(func() {
				if h, err := c.Lock(ctx, resource, nil); err == nil {
					unlock(t, h)
				}
			})
		}
		synctest.Wait()
		mu.Lock()
		clear(moments)
		mu.Unlock()
		const silence = 10 * time.Minute
		time.Sleep(silence)
		synctest.Wait()
		mu.Lock()
		attempts := 0
		for _, n := range moments {
			attempts += n
		}
		if most := int(silence / time.Second); len(moments) > most {
			t.Errorf("%d moments in %v, want at most %d", len(moments), silence, most)
		}
		if attempts < 10*resources {
			t.Errorf("%d waiters asked %d times in %v", resources, attempts, silence)
		}
		mu.Unlock()

		began := time.Now()
		next := locking(ctx, c, "0", nil)
		unlock(t, holds[0])
		if r := <-next; r.err != nil || !r.at.Equal(began) {
			t.Errorf("granted %v after the release, error %v", r.at.Sub(began), r.err)
		} else {
			unlock(t, r.hold)
		}
		cancel()
		waiting.Wait()
	})
}

// nonsense is a store with inconsistent refusals.
type nonsense struct {
	driver.Store
	answer func(*holdfast.HeldError)
	asked  atomic.Int64
}

func (s *nonsense) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	s.asked.Add(1)
	g, err := s.Store.Acquire(ctx, q)
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		s.answer(held)
	}
	return g, err
}

// A third-party store may answer inconsistently. That does not make the Client ask all the
// time.
func TestOddRefusals(t *testing.T) {
	for name, answer := range map[string]func(*holdfast.HeldError){
		"a negative position": func(e *holdfast.HeldError) { e.Position = -7 },
		"a large position":    func(e *holdfast.HeldError) { e.Position = int(^uint(0) >> 1) },
		"nearly for ever":     func(e *holdfast.HeldError) { e.RetryAfter = holdfast.Forever - 1 },
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			h := lock(t, newClient(t, store, nil), "r", nil)
			s := &nonsense{Store: store, answer: answer}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := newClient(t, s, nil).Lock(ctx, "r", &holdfast.LockOptions{Fair: true})
			mustBeHeld(t, err)
			if n := s.asked.Load(); n > 100 {
				t.Errorf("%d acquires in 20 s", n)
			}
			unlock(t, h)
		})
	}
}

// zeroHint is a store whose RetryAfter is always 0.
type zeroHint struct{ driver.Store }

func (s zeroHint) Acquire(ctx context.Context, r driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.Store.Acquire(ctx, r)
	var held *driver.HeldError
	if errors.As(err, &held) {
		held.RetryAfter = 0
	}
	return g, err
}

func TestHintOfZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, zeroHint{memlock.New(nil)})
		c := newClient(t, f, nil)
		lock(t, c, "r", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := c.Lock(ctx, "r", nil)
		mustBeHeld(t, err)
		if n := f.Calls(drivertest.Acquire); n > 150 {
			t.Errorf("%d acquires in 30 s", n)
		}
	})
}

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
	inBubble(t, "an error of the store's own at the end of ctx", func(t *testing.T) {
		c := newClient(t, connStore{memlock.New(nil)}, nil)
		for _, lock := range []func(context.Context, string, *holdfast.LockOptions) (*holdfast.Hold, error){c.Lock, c.TryLock} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/10)
			_, err := lock(ctx, "r", nil)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got error %v, want that of ctx as well", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2200*time.Millisecond)
		defer cancel()
		_, err := c.Lock(ctx, "r", &holdfast.LockOptions{TTL: time.Second}) // its patience is over too
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want that of ctx as well", err)
		}
	})
}

// connStore closes its connection a moment after the ctx of an acquire has ended.
type connStore struct{ driver.Store }

func (connStore) Acquire(ctx context.Context, _ driver.AcquireRequest) (driver.Grant, error) {
	<-ctx.Done()
	time.Sleep(300 * time.Millisecond)
	return driver.Grant{}, errors.New("use of closed network connection")
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
	inBubble(t, "with a shorter TTL", func(t *testing.T) {
		c := newClient(t, faulty(t, memlock.New(nil), on(drivertest.Acquire, drivertest.Fault{LoseRequest: true})), nil)
		began := time.Now()
		long := locking(t.Context(), c, "r", nil)
		synctest.Wait()
		if r := <-locking(t.Context(), c, "r", &holdfast.LockOptions{TTL: time.Second}); r.err == nil || r.at.Sub(began) > 3*time.Second {
			t.Errorf("gave up after %v: %v", r.at.Sub(began), r.err)
		}
		<-long
	})
}
