package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Whatever happens to the renewals, the holder learns of the loss before the resource can be
// granted to another client.
func TestS20_renewals_hang(t *testing.T) {
	for name, fault := range map[string]func(never <-chan struct{}) drivertest.Fault{
		"no request arrives":  func(never <-chan struct{}) drivertest.Fault { return drivertest.Fault{HoldRequest: never} },
		"no reply comes":      func(never <-chan struct{}) drivertest.Fault { return drivertest.Fault{HoldReply: never} },
		"all requests fail":   func(<-chan struct{}) drivertest.Fault { return drivertest.Fault{LoseRequest: true} },
		"all replies fail":    func(<-chan struct{}) drivertest.Fault { return drivertest.Fault{LoseReply: true} },
		"results are missing": func(<-chan struct{}) drivertest.Fault { return drivertest.Fault{DropLast: 1} },
		"the store is unusable": func(<-chan struct{}) drivertest.Fault {
			return drivertest.Fault{LoseRequest: true, Err: driver.ErrUnusable}
		},
		"held, of all the errors": func(<-chan struct{}) drivertest.Fault {
			return drivertest.Fault{LoseRequest: true, Err: driver.ErrHeld}
		},
	} {
		for _, ttl := range []time.Duration{holdfast.MinTTL, time.Second, 4 * time.Second, 30 * time.Second, time.Hour} {
			inBubble(t, fmt.Sprintf("%s, %v", name, ttl), func(t *testing.T) {
				store := memlock.New(nil)
				f := faulty(t, store, on(drivertest.Renew, fault(make(chan struct{}))))
				c, d := newClient(t, f, nil), newClient(t, store, nil)
				h := lock(t, c, "r", &holdfast.LockOptions{TTL: ttl})
				successor := locking(t.Context(), d, "r", nil)
				took := mustEnd(t, h, 2*ttl, holdfast.ErrUnreachable)
				lost := time.Now()
				if took >= ttl || took < ttl/2 {
					t.Errorf("the hold ended after %v", took)
				}
				r := <-successor
				if r.err != nil || !r.at.After(lost) {
					t.Errorf("granted to another %v before the holder knew (error %v)", lost.Sub(r.at), r.err)
				}
				if h.Left() != 0 {
					t.Errorf("a lost hold has %v left", h.Left())
				}
				var loss *holdfast.LostError
				err := h.Unlock(t.Context())
				if !errors.As(err, &loss) || loss.Resource != "r" || loss.LockID != h.LockID() || loss.Token != h.Token() {
					t.Errorf("Unlock of a lost hold: %v", err)
				}
				if err := h.Renew(t.Context(), 0); !errors.Is(err, holdfast.ErrUnreachable) {
					t.Errorf("Renew of a lost hold: %v", err)
				}
				mustBeHeldBy(t, store, r.hold)
			})
		}
	}
}

// The same for many holds of one Client that have nothing else in common.
func TestS20_renewals_hang_of_many(t *testing.T) {
	ttls := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 10 * time.Minute, holdfast.Forever}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 20))
			store := memlock.New(nil)
			var down atomic.Bool
			never := make(chan struct{})
			f := faulty(t, store, while(&down, on(drivertest.Renew, drivertest.Fault{HoldRequest: never})))
			c := newClient(t, f, nil)
			var mu sync.Mutex
			ended := make(map[string]time.Time)
			for i := range 100 {
				h := lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{TTL: ttls[rnd.IntN(len(ttls))]})
				context.AfterFunc(h.Context(), func() {
					mu.Lock()
					defer mu.Unlock()
					ended[h.Resource()] = time.Now()
				})
				time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
			}
			down.Store(true)
			synctest.Wait()
			now := time.Now()
			ends := make(map[string]time.Time)
			for _, s := range holdsIn(t, store, "") {
				if s.Left != holdfast.Forever {
					ends[s.Resource] = now.Add(s.Left)
				}
			}
			time.Sleep(time.Hour)
			mu.Lock()
			defer mu.Unlock()
			for resource, end := range ends {
				if at, ok := ended[resource]; !ok || !at.Before(end) {
					t.Errorf("seed %d: the hold of %q could be granted to another at %v, its holder knew at %v",
						seed, resource, end, at)
				}
			}
		})
	}
}

// The machine sleeps beyond the TTL: timers do not notice it, the clock does.
func TestS17a_machine_sleeps(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		for _, keep := range []bool{true, false} {
			inBubble(t, fmt.Sprintf("%v, keep alive %v", ttl, keep), func(t *testing.T) {
				machine := newSleeper()
				store := memlock.New(&memlock.Options{Now: machine.now})
				c := newClient(t, store, holdfast.WithClock(machine.clock, nil))
				d := newClient(t, store, nil)
				h := lock(t, c, "r", &holdfast.LockOptions{TTL: ttl, NoKeepAlive: !keep})
				forever := lock(t, c, "forever", &holdfast.LockOptions{TTL: holdfast.Forever})
				held := h.Context() // Context would look at the clock later
				time.Sleep(ttl / 10)
				machine.sleep(ttl)
				if h.Left() != 0 {
					t.Errorf("an expired hold has %v left", h.Left())
				}
				woke := time.Now()
				<-held.Done()
				if took := time.Since(woke); took > time.Second || !errors.Is(context.Cause(held), holdfast.ErrExpired) {
					t.Errorf("the holder gave up %v after the machine woke, with %v", took, context.Cause(held))
				}
				tryLock(t, d, "r", nil)
				time.Sleep(time.Minute)
				alive(t, forever)
			})
		}
	}
}

// The machine sleeps while the grant is under way: it arrives too late.
func TestS17a_machine_sleeps_in_mid_acquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := newSleeper()
		store := memlock.New(&memlock.Options{Now: machine.now})
		answer := make(chan struct{})
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 1))
		c := newClient(t, f, holdfast.WithClock(machine.clock, nil))
		got := locking(t.Context(), c, "r", nil)
		synctest.Wait()
		machine.sleep(time.Minute)
		close(answer)
		r := <-got
		if r.err != nil {
			t.Fatal(r.err)
		}
		alive(t, r.hold)
		mustBeHeldBy(t, store, r.hold)
		if n := f.Calls(drivertest.Acquire); n != 2 {
			t.Errorf("%d acquires, want 2: the first grant came too late", n)
		}
	})
}

// The wall clocks of clients decide nothing, and their monotonic clocks begin anywhere.
func TestS18_client_clock_off(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour, 30 * 365 * 24 * time.Hour} {
		inBubble(t, off.String(), func(t *testing.T) {
			start := time.Now()
			store := memlock.New(&memlock.Options{Now: func() time.Time { return time.Now().Add(off) }})
			c := newClient(t, store, holdfast.WithClock(func() time.Duration { return time.Since(start) + time.Hour }, nil))
			d := newClient(t, store, holdfast.WithClock(func() time.Duration { return time.Since(start) - time.Hour }, nil))
			for i := range 4 {
				if i%2 == 1 {
					c, d = d, c
				}
				h := lock(t, c, "r", nil)
				next := locking(t.Context(), d, "r", nil)
				time.Sleep(10 * time.Minute)
				alive(t, h)
				if len(next) != 0 {
					t.Fatal("two Clients have the lock")
				}
				if left := h.Left(); left > 30*time.Second || left < 15*time.Second {
					t.Errorf("%v left", left)
				}
				released := time.Now()
				unlock(t, h)
				r := <-next
				if r.err != nil || r.at.Sub(released) > time.Second {
					t.Fatalf("handed over after %v, error %v", r.at.Sub(released), r.err)
				}
				unlock(t, r.hold)
			}
		})
	}
}

func TestS38_forced_release(t *testing.T) {
	inBubble(t, "by another", func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		other := lock(t, c, "other", nil)
		got, err := d.Admin().ForceRelease(t.Context(), "r", h.ID())
		if err != nil || len(got) != 1 || got[0].HoldID != h.ID() || got[0].Left == 0 {
			t.Fatalf("got %+v, %v", got, err)
		}
		mustBeFree(t, store, "r")
		if took := mustEnd(t, h, time.Minute, holdfast.ErrForced); took > 10*time.Second {
			t.Errorf("the holder learned it after %v, want within a third of the TTL", took)
		}
		if !errors.Is(context.Cause(h.Context()), holdfast.ErrLost) {
			t.Errorf("the cause is not ErrLost: %v", context.Cause(h.Context()))
		}
		if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("Unlock: %v", err)
		}
		time.Sleep(time.Minute)
		alive(t, other)
	})
	inBubble(t, "of one's own", func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		if _, err := c.Admin().ForceRelease(t.Context(), "r", holdfast.HoldID{}); err != nil {
			t.Fatal(err)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrForced) {
			t.Errorf("the holder in the same process was not told at once: %v", cause)
		}
		mustBeFree(t, store, "r")
	})
	inBubble(t, "of all, or of one that is not there", func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		for range 3 {
			if _, err := c.RLock(t.Context(), "r", nil); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := d.Admin().ForceRelease(t.Context(), "r", driver.NewHoldID()); err != nil || len(got) != 0 {
			t.Errorf("of an unknown hold: got %v, %v", got, err)
		}
		if n := len(holdsIn(t, store, "r")); n != 3 {
			t.Fatalf("%d holds, want 3", n)
		}
		if got, err := d.Admin().ForceRelease(t.Context(), "r", holdfast.HoldID{}); err != nil || len(got) != 3 {
			t.Errorf("of all: got %v, %v", got, err)
		}
		mustBeFree(t, store, "r")
	})
	inBubble(t, "wakes waiters", func(t *testing.T) {
		store := memlock.New(nil)
		c, d, e := newClient(t, store, nil), newClient(t, store, nil), newClient(t, store, nil)
		lock(t, c, "r", nil)
		next := locking(t.Context(), d, "r", nil)
		synctest.Wait()
		forced := time.Now()
		if _, err := e.Admin().ForceRelease(t.Context(), "r", holdfast.HoldID{}); err != nil {
			t.Fatal(err)
		}
		if r := <-next; r.err != nil || r.at != forced {
			t.Errorf("granted %v later, error %v", r.at.Sub(forced), r.err)
		}
	})
}

// A late holder that has a successor: neither its renewals nor its releases affect the
// successor.
func TestS03_late_holder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldRequest: arrive}))
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		o := &holdfast.LockOptions{LockID: "the same"}
		h := lock(t, c, "r", o)
		time.Sleep(29 * time.Second) // c knows that it has lost the lock
		next := lock(t, d, "r", nil)
		if next.Token() <= h.Token() {
			t.Errorf("token %d follows %d", next.Token(), h.Token())
		}
		close(arrive)
		synctest.Wait()
		mustBeHeldBy(t, store, next)
		if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		time.Sleep(time.Second) // the hold is released in the background
		mustBeHeldBy(t, store, next)
		unlock(t, next)

		again := lock(t, d, "r", o)
		if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		time.Sleep(time.Second) // the hold is released in the background
		mustBeHeldBy(t, store, again)
	})
}

// A release whose reply was lost is repeated after the same lock ID has acquired the resource
// again.
func TestS04_repeated_release(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store,
			on(drivertest.Release, drivertest.Fault{LoseReply: true}, 1),
			on(drivertest.Release, drivertest.Fault{HoldRequest: arrive}, 2))
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		o := &holdfast.LockOptions{LockID: "the same"}
		h := lock(t, c, "r", o)
		unlocked := make(chan error, 1)
		go func() { unlocked <- h.Unlock(t.Context()) }()
		time.Sleep(time.Second)
		again := tryLock(t, d, "r", o)
		if len(unlocked) != 0 {
			t.Fatal("Unlock did not repeat the release")
		}
		close(arrive)
		if err := <-unlocked; err != nil {
			t.Errorf("Unlock: %v", err)
		}
		mustBeHeldBy(t, store, again)
		alive(t, again)
	})
}

// A renewal after the expiry does not revive the hold, with and without a successor.
func TestS07_renew_after_expiry(t *testing.T) {
	for _, taken := range []bool{false, true} {
		inBubble(t, fmt.Sprintf("successor %v", taken), func(t *testing.T) {
			machine := newSleeper()
			store := memlock.New(&memlock.Options{Now: machine.now})
			c := newClient(t, store, holdfast.WithClock(machine.clock, nil))
			d := newClient(t, store, nil)
			h := lock(t, c, "r", nil)
			machine.sleep(time.Minute)
			if taken {
				tryLock(t, d, "r", nil)
			}
			// Before the timer can fire.
			if err := h.Renew(t.Context(), 0); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Renew: %v", err)
			}
			if h.Context().Err() == nil {
				t.Error("the context has not ended")
			}
			if !taken {
				mustBeFree(t, store, "r")
			}
		})
	}
}

// A renewal that is answered after the deadline does not revive the hold, although the store
// has renewed it: the holder may have been told already.
func TestLateReplyDoesNotRevive(t *testing.T) {
	for name, renew := range map[string]func(*testing.T, *holdfast.Hold){
		"keep-alive": func(*testing.T, *holdfast.Hold) { time.Sleep(10 * time.Second) },
		"Renew": func(t *testing.T, h *holdfast.Hold) {
			go func() {
				if err := h.Renew(t.Context(), time.Hour); !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("Renew: %v", err)
				}
			}()
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			machine := newSleeper()
			answer := make(chan struct{})
			store := memlock.New(nil) // on another machine
			f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldReply: answer}, 1))
			var lost atomic.Int32
			c := newClient(t, f, holdfast.WithClock(machine.clock, &holdfast.Options{Trace: &holdfast.Trace{
				HoldEnd: func(context.Context, holdfast.HoldInfo) { lost.Add(1) },
			}}))
			h := lock(t, c, "r", nil)
			renew(t, h)
			synctest.Wait()
			if f.Calls(drivertest.Renew) != 1 {
				t.Fatal("no renewal is under way")
			}
			machine.sleep(time.Minute)
			close(answer)
			synctest.Wait()
			// No time has passed: the answer came before the timer fired.
			if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrLost) {
				t.Fatalf("a late answer revived the hold (cause %v, %v left)", cause, h.Left())
			}
			time.Sleep(time.Minute)
			if lost.Load() != 1 {
				t.Errorf("the loss was reported %d times", lost.Load())
			}
		})
	}
}

// forgetful is a store that notices when its server may have lost its data.
type forgetful struct {
	driver.Store
	calls  atomic.Int32
	errs   []error // the errors of the first calls of WatchLoss
	signal chan struct{}
}

func newForgetful(errs ...error) *forgetful {
	return &forgetful{Store: memlock.New(nil), errs: errs, signal: make(chan struct{}, 1)}
}

func (f *forgetful) WatchLoss(context.Context) (<-chan struct{}, error) {
	if n := int(f.calls.Add(1)); n <= len(f.errs) {
		return nil, f.errs[n-1]
	}
	return f.signal, nil
}

// lose deletes all holds.
func (f *forgetful) lose(t *testing.T) {
	t.Helper()
	for s, err := range f.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: s.Ref()}}); err != nil {
			t.Fatal(err)
		}
	}
}

const longTTL = 10 * time.Minute

// After a signal that the store may have lost its data, one batch renews all holds of the
// Client at once.
func TestLooksAfterSignalOfLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newForgetful()
		f := faulty(t, store)
		c := newClient(t, f, nil)
		var kept []*holdfast.Hold
		for _, ttl := range []time.Duration{longTTL, longTTL / 2, 2 * longTTL} {
			kept = append(kept, lock(t, c, ttl.String(), &holdfast.LockOptions{TTL: ttl}))
		}
		left := lock(t, c, "left to its TTL", &holdfast.LockOptions{TTL: longTTL, NoKeepAlive: true})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := f.Calls(drivertest.Renew); n != 1 {
			t.Errorf("%d batches when the watch began, want 1", n)
		}
		store.signal <- struct{}{}
		synctest.Wait()
		if n := f.Calls(drivertest.Renew); n != 2 {
			t.Errorf("%d batches, want another one", n)
		}
		for _, h := range kept {
			alive(t, h)
		}
		store.lose(t)
		store.signal <- struct{}{}
		synctest.Wait()
		if n := f.Calls(drivertest.Renew); n != 3 {
			t.Errorf("%d batches, want another one", n)
		}
		for _, h := range kept {
			if took := mustEnd(t, h, time.Hour, holdfast.ErrLost); took > 0 {
				t.Errorf("the loss of %q showed after %v", h.Resource(), took)
			}
		}
		alive(t, left)
		if n := store.calls.Load(); n != 1 {
			t.Errorf("WatchLoss was called %d times", n)
		}
	})
}

// A renewal that was sent before the signal may have been answered before the loss.
func TestLooksAgainAfterRenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newForgetful()
		reply := make(chan struct{})
		c := newClient(t, faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldReply: reply}, 2)), nil)
		h := lock(t, c, "r", &holdfast.LockOptions{TTL: longTTL})
		time.Sleep(longTTL/3 + 2*time.Second)
		synctest.Wait()
		store.lose(t)
		time.Sleep(time.Second)
		store.signal <- struct{}{}
		synctest.Wait()
		alive(t, h)
		close(reply)
		if took := mustEnd(t, h, time.Hour, holdfast.ErrLost); took > 0 {
			t.Errorf("the loss showed after %v", took)
		}
	})
}

// A failed watch is repeated, and then the holds are renewed.
func TestLossWatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newForgetful(errors.New("away"), errors.New("away"))
		c := newClient(t, store, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{TTL: longTTL})
		store.lose(t)
		if took := mustEnd(t, h, time.Hour, holdfast.ErrLost); took > 5*time.Second {
			t.Errorf("the loss showed after %v", took)
		}
	})
}

// WatchLoss is not called again if the store does not support it or has stopped to notice
// losses.
func TestNoLossWatch(t *testing.T) {
	for name, store := range map[string]*forgetful{
		"unsupported": newForgetful(driver.ErrUnsupported),
		"closed":      newForgetful(),
	} {
		inBubble(t, name, func(t *testing.T) {
			store.signal = make(chan struct{})
			close(store.signal)
			f := faulty(t, store)
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			time.Sleep(time.Hour)
			alive(t, h)
			if n := store.calls.Load(); n != 1 {
				t.Errorf("%d calls of WatchLoss, want 1", n)
			}
			if n := f.Calls(drivertest.Renew); n > 370 {
				t.Errorf("%d renewals in an hour", n)
			}
		})
	}
}

// Locks that are held for a moment do not start a watch.
func TestShortHoldsWatchNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newForgetful()
		c := newClient(t, store, nil)
		for range 100 {
			unlock(t, lock(t, c, "r", nil))
			time.Sleep(70 * time.Millisecond) // so that it never ends when the timer fires
		}
		if n := store.calls.Load(); n > 0 {
			t.Errorf("WatchLoss was called %d times", n)
		}
	})
}

// A stopped process, or one on a sleeping machine, hears no answer. That says nothing about
// the store.
func TestStoppedWhileItWaits(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"30s": 0, "4s": 4 * time.Second} {
		for _, inPause := range []bool{false, true} {
			if inPause {
				name += ", between attempts"
			}
			inBubble(t, name, func(t *testing.T) {
				store := memlock.New(nil)
				machine := newSleeper()
				f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
					switch {
					case c.Op != drivertest.Acquire || c.N < 3 || c.N > 5:
						return drivertest.Fault{}
					case !inPause:
						machine.sleep(time.Minute) // when this attempt fails
					case c.N == 4:
						time.AfterFunc(time.Nanosecond, func() { machine.sleep(time.Minute) })
					}
					return drivertest.Fault{LoseRequest: true}
				})
				c, d := newClient(t, f, holdfast.WithClock(machine.clock, nil)), newClient(t, store, nil)
				h := lock(t, d, "r", nil)
				mine := locking(t.Context(), c, "r", &holdfast.LockOptions{TTL: ttl})
				time.Sleep(20 * time.Second)
				unlock(t, h)
				unlock(t, granted(t, mine))
			})
		}
	}
}

// halting is a store whose first n releases are not answered for a minute, whatever their
// context: the process is stopped.
type halting struct {
	driver.Store
	stops *int
}

func (s halting) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if *s.stops > 0 {
		*s.stops--
		time.Sleep(time.Minute)
		return nil, errors.New("connection reset")
	}
	return s.Store.Release(ctx, qs)
}

// The same holds for releases. But a store that always hangs ends them.
func TestStoppedWhileItReleases(t *testing.T) {
	for name, release := range map[string]func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error{
		"Unlock": func(ctx context.Context, _ *holdfast.Client, h *holdfast.Hold) error { return h.Unlock(ctx) },
		"ReleaseID": func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error {
			_, err := c.Admin().ReleaseID(ctx, h.LockID())
			return err
		},
	} {
		for stops, ends := range map[int]bool{1: true, 9: false} {
			inBubble(t, name, func(t *testing.T) {
				store, left := memlock.New(nil), stops
				c := newClient(t, halting{store, &left}, nil)
				h := lock(t, c, "r", &holdfast.LockOptions{TTL: time.Hour})
				switch err := release(t.Context(), c, h); {
				case ends && err != nil:
					t.Error(err)
				case ends:
					mustBeFree(t, store, "r")
				case err == nil:
					t.Error("a halting store has released the hold")
				}
				left = 0
			})
		}
	}
}

// Locks with a short TTL that join and leave a wait do not use up the others' patience with a
// silent store.
func TestSilentBesideShortLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{HoldReply: t.Context().Done()}
		})
		c := newClient(t, f, nil)
		began := time.Now()
		mine := locking(t.Context(), c, "r", nil)
		for range 10 {
			time.Sleep(5 * time.Second)
			locking(t.Context(), c, "r", &holdfast.LockOptions{TTL: holdfast.MinTTL})
		}
		r := <-mine
		if r.err == nil || r.at.Sub(began) > holdfast.DefaultTTL+11*time.Second {
			t.Errorf("gave up after %v: %v", r.at.Sub(began), r.err)
		}
	})
}

// cutOff lets only acquires through while down is set.
func cutOff(down *atomic.Bool, fault drivertest.Fault) rule {
	return func(c drivertest.Call) drivertest.Fault {
		if c.Op != drivertest.Acquire && down.Load() {
			return fault
		}
		return drivertest.Fault{}
	}
}

// Unlock of a lost hold does not wait, even if the store may still have the hold, which is
// released as soon as the store answers.
func TestUnlockOfTheLost(t *testing.T) {
	const takeover = time.Minute
	for name, fault := range map[string]drivertest.Fault{
		"fails": {LoseRequest: true},
		"hangs": {HoldRequest: make(chan struct{})},
	} {
		inBubble(t, name, func(t *testing.T) {
			if fault.HoldRequest != nil {
				fault.HoldRequest = make(chan struct{}) // made within this bubble
			}
			var down atomic.Bool
			store := memlock.New(nil)
			f := faulty(t, store, cutOff(&down, fault))
			c := newClient(t, f, nil)
			var holds []*holdfast.Hold
			for i := range 1500 {
				holds = append(holds, lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{TakeoverDelay: takeover}))
			}
			down.Store(true)
			mustEnd(t, holds[0], time.Minute, holdfast.ErrUnreachable)
			synctest.Wait()
			began := time.Now()
			for range 2 {
				for _, h := range holds {
					var loss *holdfast.LostError
					if err := h.Unlock(t.Context()); !errors.As(err, &loss) || !errors.Is(err, holdfast.ErrUnreachable) {
						t.Fatalf("Unlock: %v", err)
					}
				}
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("it took %v", took)
			}
			time.Sleep(10 * time.Second)
			if n := len(holdsIn(t, store, "")); n != len(holds) {
				t.Fatalf("the store has %d holds", n)
			}
			down.Store(false)
			time.Sleep(12 * time.Second)
			if n := len(holdsIn(t, store, "")); n != 0 {
				t.Errorf("the store has %d holds after it answered again", n)
			}
		})
	}
}

// A hold that has passed its deadline is lost even if no timer has fired yet: not all of the
// work ran under the lock.
func TestUnlockAfterTheEnd(t *testing.T) {
	for name, unlock := range map[string]func(context.Context, *holdfast.Client, func()) error{
		"Unlock": func(ctx context.Context, c *holdfast.Client, work func()) error {
			h, err := c.Lock(ctx, "r", nil)
			if err != nil {
				return err
			}
			work()
			return h.Unlock(ctx)
		},
		"UnlockAfter": func(ctx context.Context, c *holdfast.Client, work func()) error {
			h, err := c.Lock(ctx, "r", nil)
			if err != nil {
				return err
			}
			work()
			return h.UnlockAfter(ctx, time.Second)
		},
		"Do": func(ctx context.Context, c *holdfast.Client, work func()) error {
			return c.Do(ctx, "r", nil, func(context.Context) error { work(); return nil })
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			machine := newSleeper()
			store := memlock.New(&memlock.Options{Now: machine.now})
			c, d := newClient(t, store, holdfast.WithClock(machine.clock, nil)), newClient(t, store, holdfast.WithClock(machine.clock, nil))
			var next *holdfast.Hold
			err := unlock(t.Context(), c, func() {
				machine.sleep(time.Minute)
				next = tryLock(t, d, "r", nil)
			})
			if !errors.Is(err, holdfast.ErrLost) || !errors.Is(err, holdfast.ErrExpired) {
				t.Errorf("got error %v", err)
			}
			synctest.Wait()
			mustBeHeldBy(t, store, next)
		})
	}
}

// refusing is a store that returns ErrLost for each renewal and still has the hold, like a
// store that was restored from a backup.
type refusing struct{ driver.Store }

func (refusing) Renew(_ context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	rs := make([]driver.RenewResult, len(qs))
	for i := range rs {
		rs[i].Err = driver.ErrLost
	}
	return rs, nil
}

// A hold that is lost before its end does not stay in the store either.
func TestUnlockOfTheRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		store := memlock.New(nil)
		f := faulty(t, refusing{store}, cutOff(&down, drivertest.Fault{LoseRequest: true}))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{TTL: 24 * time.Hour})
		if err := h.Renew(t.Context(), 0); !errors.Is(err, holdfast.ErrForced) {
			t.Fatalf("Renew: %v", err)
		}
		down.Store(true)
		if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("Unlock: %v", err)
		}
		time.Sleep(4 * time.Minute)
		mustBeHeldBy(t, store, h)
		down.Store(false)
		time.Sleep(12 * time.Second)
		mustBeFree(t, store, "r")
	})
}

// Close does not wait long for a lost hold that expires.
func TestCloseAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		f := faulty(t, memlock.New(nil), cutOff(&down, drivertest.Fault{HoldRequest: make(chan struct{})}))
		c := unswept(f, nil)
		h := lock(t, c, "r", nil)
		down.Store(true)
		mustEnd(t, h, time.Minute, holdfast.ErrUnreachable)
		began := time.Now()
		if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrUnreachable) {
			t.Errorf("Unlock: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// The answer to the release of a hold that another program has retaken is definite.
func TestCleanUpOfTheRetaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		f := faulty(t, remaining{memlock.New(nil)}, cutOff(&down, drivertest.Fault{LoseRequest: true}))
		c := newClient(t, f, nil)
		h := lock(t, c, "taken", &holdfast.LockOptions{TTL: holdfast.Forever})
		down.Store(true)
		if err := h.Unlock(t.Context()); err == nil || errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("Unlock: %v", err)
		}
		down.Store(false)
		time.Sleep(time.Minute)
		n := f.Calls(drivertest.Release)
		time.Sleep(time.Hour)
		if more := f.Calls(drivertest.Release) - n; more != 0 {
			t.Errorf("%d releases after the answer", more)
		}
	})
}

// remaining is a store in which an old program, without hold IDs, has retaken the resource
// "taken" with the lock ID that releases it.
type remaining struct{ *memlock.Store }

func (s remaining) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	rs, err := s.Store.Release(ctx, qs)
	for i := range rs {
		rs[i].Remains = qs[i].Resource == "taken"
	}
	return rs, err
}

func TestReleasedButRetaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		c := newClient(t, remaining{memlock.New(nil)}, &holdfast.Options{Trace: j.trace()})
		o := &holdfast.LockOptions{LockID: "id"}
		h := lock(t, c, "taken", o)
		j.take()
		var loss *holdfast.LostError
		if err := h.Unlock(t.Context()); !errors.As(err, &loss) || !errors.Is(err, holdfast.ErrForced) || loss.Resource != "taken" {
			t.Errorf("Unlock: %v", err)
		}
		synctest.Wait()
		if got := j.take(); len(got) == 0 || got[len(got)-1] != "released taken, alive false: lost" {
			t.Errorf("told %q", got)
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Errorf("Unlock again: %v", err)
		}

		lock(t, c, "taken", o)
		lock(t, c, "free", o)
		ss, err := c.Admin().ReleaseID(t.Context(), "id")
		if !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("ReleaseID: %v", err)
		}
		if len(ss) != 1 || ss[0].Resource != "free" {
			t.Errorf("returned as released: %+v", ss)
		}
	})
}
