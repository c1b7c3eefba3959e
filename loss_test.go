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
