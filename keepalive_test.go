package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestKeepAlive(t *testing.T) {
	for _, ttl := range []time.Duration{holdfast.MinTTL, time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store)
			c := newClient(t, f, nil)
			h := lock(t, c, "r", &holdfast.LockOptions{TTL: ttl})
			time.Sleep(100 * ttl)
			alive(t, h)
			mustBeHeldBy(t, store, h)
			if n := f.Calls(drivertest.Renew); n > 310 {
				t.Errorf("%v: %d renewals in 100 TTLs", ttl, n)
			}
			if left := h.Left(); left < ttl/2 {
				t.Errorf("%v: only %v left", ttl, left)
			}
		})
	}
}

func TestNoKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, memlock.New(nil))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{NoKeepAlive: true})
		time.Sleep(20 * time.Second)
		if err := h.Renew(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if took, want := mustEnd(t, h, time.Minute, holdfast.ErrExpired), 28125*time.Millisecond; took != want {
			t.Errorf("the hold ended %v after its renewal, want %v", took, want)
		}
		if n := f.Calls(drivertest.Renew); n != 1 {
			t.Errorf("%d renewals, want the one that was asked for", n)
		}
	})
}

// The reply to a renewal is lost, or the request, for a while: it is repeated, and
// the hold lives on.
func TestS06_renewal_lost_for_a_while(t *testing.T) {
	for name, fault := range map[string]func() drivertest.Fault{
		"requests":       func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} },
		"replies":        func() drivertest.Fault { return drivertest.Fault{LoseReply: true} },
		"results":        func() drivertest.Fault { return drivertest.Fault{DropLast: 1} },
		"replies, hangs": func() drivertest.Fault { return drivertest.Fault{HoldReply: make(chan struct{})} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				var down atomic.Bool
				f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
					if c.Op == drivertest.Renew && down.Load() {
						return fault()
					}
					return drivertest.Fault{}
				})
				c := newClient(t, f, nil)
				h := lock(t, c, "r", nil)
				for range 10 {
					down.Store(true)
					time.Sleep(14 * time.Second)
					down.Store(false)
					time.Sleep(11 * time.Second)
					alive(t, h)
				}
				mustBeHeldBy(t, store, h)
				if n := f.Calls(drivertest.Renew); n > 10*20 {
					t.Errorf("%d renewals in 250 s", n)
				}
			})
		})
	}
}

// A single renewal that gets lost costs no lock, however short its TTL: it is
// given up in time for another.
func TestS06_renewal_hangs_once(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{HoldReply: make(chan struct{})}, 1, 2, 7, 8))
			c := newClient(t, f, nil)
			h := lock(t, c, "r", &holdfast.LockOptions{TTL: ttl})
			time.Sleep(10 * ttl)
			if n := f.Calls(drivertest.Renew); n < 10 {
				t.Errorf("%v: only %d renewals", ttl, n)
			}
			alive(t, h)
		})
	}
}

// Renewals that arrive late or in another order shorten nothing.
func TestS07a_renewals_out_of_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{NoKeepAlive: true})
		if err := h.Renew(t.Context(), time.Minute); err != nil { // the first try is held back
			t.Fatal(err)
		}
		if err := h.Renew(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		left := h.Left()
		close(arrive)
		synctest.Wait()
		if got := holdsIn(t, store, "r")[0].Left; got != time.Hour {
			t.Errorf("the store has %v left, want 1 h", got)
		}
		if h.Left() != left {
			t.Errorf("the holder has %v left, had %v", h.Left(), left)
		}
	})
}

func TestRenew(t *testing.T) {
	t.Run("extends, and sets the TTL of the keep-alive", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store)
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			if err := h.Renew(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			if want := time.Hour - 5*time.Second; h.Left() != want {
				t.Errorf("%v left, want %v", h.Left(), want)
			}
			time.Sleep(100 * time.Minute)
			alive(t, h)
			if n := f.Calls(drivertest.Renew); n < 5 || n > 8 {
				t.Errorf("%d renewals in 100 min with a TTL of 1 h", n)
			}
			if left := holdsIn(t, store, "r")[0].Left; left < 40*time.Minute {
				t.Errorf("the store has %v left", left)
			}
		})
	})
	t.Run("never shortens", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store)
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			left := h.Left()
			if err := h.Renew(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			if h.Left() != left || holdsIn(t, store, "r")[0].Left != 30*time.Second {
				t.Errorf("%v left, in the store %v", h.Left(), holdsIn(t, store, "r")[0].Left)
			}
			time.Sleep(time.Minute)
			alive(t, h)
			if left := holdsIn(t, store, "r")[0].Left; left > time.Second {
				t.Errorf("%v left in the store: the keep-alive does not use the new TTL", left)
			}
			if n := f.Calls(drivertest.Renew); n < 150 {
				t.Errorf("%d renewals in a minute with a TTL of 1 s", n)
			}
			if err := h.Renew(t.Context(), 0); err != nil || h.Left() > time.Second {
				t.Errorf("Renew(0): %v left, error %v; want the TTL so far", h.Left(), err)
			}
		})
	})
	t.Run("without an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{LoseRequest: true}, 1, 2, 3))
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			began, left := time.Now(), h.Left()
			err := h.Renew(t.Context(), time.Hour)
			if !errors.Is(err, drivertest.ErrFault) || errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got error %v", err)
			}
			if h.Left() != left-time.Since(began) {
				t.Errorf("%v left, had %v", h.Left(), left)
			}
			time.Sleep(time.Minute)
			alive(t, h)
			if h.Left() > 30*time.Second {
				t.Errorf("%v left: a renewal that failed changed the TTL", h.Left())
			}
		})
	})
	t.Run("ctx ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{HoldRequest: make(chan struct{})}, 1))
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			err := h.Renew(ctx, 0)
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got error %v", err)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("took %v", took)
			}
			time.Sleep(time.Minute)
			alive(t, h)
		})
	})
	t.Run("of what is gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil))
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			unlock(t, h)
			if err := h.Renew(t.Context(), time.Hour); !errors.Is(err, holdfast.ErrReleased) {
				t.Errorf("after Unlock: %v", err)
			}
			h = lock(t, c, "r", nil)
			if _, err := newClient(t, f, nil).ForceRelease(t.Context(), "r", h.ID()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				var loss *holdfast.LostError
				if err := h.Renew(t.Context(), time.Hour); !errors.As(err, &loss) || !errors.Is(err, holdfast.ErrForced) {
					t.Errorf("after a forced release: %v", err)
				}
			}
			if n := f.Calls(drivertest.Renew); n != 1 {
				t.Errorf("%d renewals were sent, want 1", n)
			}
			if h.Context().Err() == nil {
				t.Error("the context lives on")
			}
		})
	})
}

// Unlock while a renewal is under way: wherever that is, nothing comes back to
// life, and nobody is told of a loss.
func TestS16_unlock_races_keep_alive(t *testing.T) {
	for name, fault := range map[string]func(release <-chan struct{}) drivertest.Fault{
		"request arrives after the release": func(ch <-chan struct{}) drivertest.Fault { return drivertest.Fault{HoldRequest: ch} },
		"reply arrives after the release":   func(ch <-chan struct{}) drivertest.Fault { return drivertest.Fault{HoldReply: ch} },
		"at the same moment":                func(<-chan struct{}) drivertest.Fault { return drivertest.Fault{} },
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				synctest.Test(t, func(t *testing.T) {
					store := memlock.New(nil)
					unlocked := make(chan struct{})
					f := faulty(t, store, on(drivertest.Renew, fault(unlocked), 1))
					c := newClient(t, f, &holdfast.Options{Trace: &holdfast.Trace{
						Lost: func(_ *holdfast.Hold, err error) { t.Errorf("told of a loss: %v", err) },
					}})
					h := lock(t, c, "r", nil)
					time.Sleep(10 * time.Second) // to the renewal
					unlock(t, h)
					close(unlocked)
					synctest.Wait()
					if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrReleased) {
						t.Errorf("the context ended with %v", cause)
					}
					mustBeFree(t, store, "r")
					calls := f.Calls(drivertest.Renew)
					time.Sleep(time.Minute)
					mustBeFree(t, store, "r")
					if f.Calls(drivertest.Renew) != calls {
						t.Error("a hold is renewed after its release")
					}
				})
			}
		})
	}
}

func TestS21_ttls(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		ttl, lives, left time.Duration // left: to the holder, the margin less
	}{
		{0, 30 * time.Second, 28125 * time.Millisecond},
		{20 * time.Millisecond, 20 * time.Millisecond, 15 * time.Millisecond},
		{20*time.Millisecond + 999*time.Microsecond, 20 * time.Millisecond, 15 * time.Millisecond},
		{time.Second, time.Second, 937500 * time.Microsecond},
		{time.Minute, time.Minute, 56250 * time.Millisecond},
		{year, year, year - 5*time.Second},
		{holdfast.MaxTTL, holdfast.MaxTTL, holdfast.MaxTTL - 5*time.Second},
		{holdfast.Forever, holdfast.Forever, holdfast.Forever},
	} {
		t.Run(test.ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				c := newClient(t, store, nil)
				h := lock(t, c, "r", &holdfast.LockOptions{TTL: test.ttl})
				if got := holdsIn(t, store, "r")[0].Left; got != test.lives {
					t.Errorf("it lives for %v, want %v", got, test.lives)
				}
				if h.Left() != test.left {
					t.Errorf("the holder has %v left, want %v", h.Left(), test.left)
				}
				if err := h.Renew(t.Context(), 0); err != nil || h.Left() != test.left {
					t.Errorf("renewed, the holder has %v left, want %v (error %v)", h.Left(), test.left, err)
				}
				unlock(t, h)
			})
		})
	}
	for _, ttl := range []time.Duration{
		time.Millisecond, 19999 * time.Microsecond, -1, -time.Hour, holdfast.MaxTTL + time.Millisecond, holdfast.Forever - 1,
	} {
		t.Run(ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := faulty(t, memlock.New(nil))
				c, d := newClient(t, f, nil), newClient(t, f, &holdfast.Options{TTL: ttl})
				h := lock(t, c, "held", &holdfast.LockOptions{LockID: "id"})
				for name, err := range map[string]error{
					"Lock":       second(c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: ttl})),
					"TryRLock":   second(c.TryRLock(t.Context(), "r", &holdfast.LockOptions{TTL: ttl})),
					"by default": second(d.Lock(t.Context(), "r", nil)),
					"Renew":      h.Renew(t.Context(), ttl),
					"RenewID":    second(c.RenewID(t.Context(), "id", ttl)),
				} {
					if !errors.Is(err, holdfast.ErrInvalid) {
						t.Errorf("%s: got error %v, want ErrInvalid", name, err)
					}
				}
				if n := f.Calls(drivertest.Acquire) + f.Calls(drivertest.Renew); n != 1 {
					t.Errorf("%d calls were sent, want that of the lock", n)
				}
			})
		})
	}
}

func TestMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, &holdfast.Options{Margin: 2 * time.Second})
		if h := lock(t, c, "a", nil); h.Left() != 28*time.Second {
			t.Errorf("%v left", h.Left())
		}
		if h := lock(t, c, "b", &holdfast.LockOptions{TTL: 4 * time.Second}); h.Left() != 2*time.Second {
			t.Errorf("%v left", h.Left())
		}
		for name, opts := range map[string]*holdfast.Options{
			"negative":               {Margin: -1},
			"over half the TTL":      {Margin: 15*time.Second + 1},
			"over half of Forever's": {Margin: time.Minute, TTL: holdfast.Forever},
		} {
			if _, err := newClient(t, store, opts).TryLock(t.Context(), "c", nil); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s: got error %v, want ErrInvalid", name, err)
			}
		}
	})
}

// A hold without an end begins as a finite one, and is looked at every 30 s.
func TestS21_forever(t *testing.T) {
	forever := &holdfast.LockOptions{TTL: holdfast.Forever}
	t.Run("is checked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store)
			c, d := newClient(t, f, nil), newClient(t, store, nil)
			h := lock(t, c, "r", forever)
			time.Sleep(time.Hour)
			if n := f.Calls(drivertest.Renew); n < 110 || n > 170 {
				t.Errorf("looked at %d times in an hour", n)
			}
			if _, err := d.ForceRelease(t.Context(), "r", h.ID()); err != nil {
				t.Fatal(err)
			}
			if took := mustEnd(t, h, time.Hour, holdfast.ErrForced); took > 31*time.Second {
				t.Errorf("the holder noticed after %v", took)
			}
		})
	})
	t.Run("does not end while nobody can be asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				return drivertest.Fault{LoseRequest: c.Op == drivertest.Renew && c.N > 1}
			})
			c := newClient(t, f, nil)
			h := lock(t, c, "r", forever)
			time.Sleep(10 * time.Hour)
			alive(t, h)
			mustBeHeldBy(t, store, h)
		})
	})
	t.Run("becomes so later", func(t *testing.T) {
		// Nobody answers when it is made forever: the keep-alive goes on trying,
		// and until then it has an end.
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{LoseRequest: true}, 1, 2, 3, 4))
			c := newClient(t, f, nil)
			h := lock(t, c, "r", forever)
			if left := holdsIn(t, store, "r")[0].Left; left > 30*time.Second {
				t.Fatalf("%v left in the store", left)
			}
			if h.Left() > 30*time.Second {
				t.Errorf("the holder has %v left", h.Left())
			}
			time.Sleep(time.Minute)
			alive(t, h)
			if h.Left() != holdfast.Forever || holdsIn(t, store, "r")[0].Left != holdfast.Forever {
				t.Errorf("%v left, %v in the store", h.Left(), holdsIn(t, store, "r")[0].Left)
			}
		})
	})
	t.Run("never becomes so", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{LoseRequest: true}))
			c, d := newClient(t, f, nil), newClient(t, store, nil)
			h := lock(t, c, "r", forever)
			mustEnd(t, h, time.Minute, holdfast.ErrUnreachable)
			lock(t, d, "r", nil)
		})
	})
	t.Run("without a keep-alive", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{LoseRequest: true}, 1, 2, 3))
			c := newClient(t, f, nil)
			o := &holdfast.LockOptions{TTL: holdfast.Forever, NoKeepAlive: true}
			if _, err := c.Lock(t.Context(), "r", o); !errors.Is(err, drivertest.ErrFault) {
				t.Fatalf("got error %v", err)
			}
			mustBeFree(t, store, "r")
			h := lock(t, c, "r", o)
			calls := f.Calls(drivertest.Renew)
			time.Sleep(10 * time.Hour)
			alive(t, h)
			if f.Calls(drivertest.Renew) != calls {
				t.Error("renewed without being asked")
			}
		})
	})
}

// Of a batch, each has its own outcome.
func TestBatchOutcomes(t *testing.T) {
	three := func(t *testing.T, c *holdfast.Client) (hs [3]*holdfast.Hold) {
		for i := range hs {
			hs[i] = lock(t, c, fmt.Sprint(i), nil)
		}
		return hs
	}
	t.Run("missing is unknown", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{DropLast: 1}, 1, 2))
			c := newClient(t, f, nil)
			hs := three(t, c)
			time.Sleep(time.Minute)
			for _, h := range hs {
				alive(t, h)
			}
		})
	})
	t.Run("one is lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			c := newClient(t, store, nil)
			hs := three(t, c)
			if _, err := newClient(t, store, nil).ForceRelease(t.Context(), "1", holdfast.HoldID{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			mustEnd(t, hs[1], time.Millisecond, holdfast.ErrForced)
			alive(t, hs[0])
			alive(t, hs[2])
		})
	})
	t.Run("one batch hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{HoldRequest: make(chan struct{})}, 1))
			c := newClient(t, f, nil)
			hs := three(t, c)
			time.Sleep(11 * time.Second)
			if f.Calls(drivertest.Renew) != 1 {
				t.Fatal("no batch is under way")
			}
			quick := lock(t, c, "quick", &holdfast.LockOptions{TTL: time.Second})
			time.Sleep(time.Minute)
			alive(t, quick)
			for _, h := range hs {
				alive(t, h)
			}
		})
	})
}

// However many holds there are, whenever they were taken, they travel together.
func TestRenewalsTravelTogether(t *testing.T) {
	const holds = 10_000
	ttls := []time.Duration{15 * time.Second, 30 * time.Second, time.Minute}
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 10_000))
		var requests, largest atomic.Int64
		f := drivertest.NewFaultStore(memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Renew {
				requests.Add(int64(len(c.Refs)))
				largest.Store(max(largest.Load(), int64(len(c.Refs))))
			}
			return drivertest.Fault{}
		})
		t.Cleanup(func() { _ = f.Close() })
		c := newClient(t, f, nil)
		hs := make([]*holdfast.Hold, holds)
		for i := range hs {
			hs[i] = lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{TTL: ttls[i%len(ttls)]})
			time.Sleep(time.Duration(rnd.Int64N(int64(time.Minute / holds))))
		}
		goroutinesBefore, _ := goroutines()
		time.Sleep(time.Minute)
		calls := f.Calls(drivertest.Renew)
		requests.Store(0)
		const observed = 2 * time.Minute
		time.Sleep(observed)
		calls = f.Calls(drivertest.Renew) - calls

		var allowed float64 // one call for 500 holds in each period of renewal
		for _, ttl := range ttls {
			allowed += float64(holds) / float64(len(ttls)) / 500 * float64(observed) / float64(ttl/3)
		}
		t.Logf("%d calls in %v, %.0f are allowed; %d requests, at most %d in a call", calls, observed, allowed, requests.Load(), largest.Load())
		if float64(calls) > allowed {
			t.Errorf("%d calls in %v, want at most %.0f", calls, observed, allowed)
		}
		if n := largest.Load(); n > 1000 {
			t.Errorf("%d requests in one call", n)
		}
		for _, h := range hs {
			alive(t, h)
		}
		if n, _ := goroutines(); n > goroutinesBefore {
			t.Errorf("%d goroutines, %d before", n, goroutinesBefore)
		}
	})
}

// What a store answers to a renewal in the words of another outcome is unknown,
// not lost.
func TestOnlyLostIsLost(t *testing.T) {
	for _, err := range []error{driver.ErrHeld, driver.ErrDamaged, driver.ErrInvalid, driver.ErrUnsupported, context.Canceled, context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{LoseRequest: true, Err: err}, 1, 2, 3))
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			time.Sleep(time.Minute)
			alive(t, h)
		})
	}
}
