package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
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

// Renewals that arrive late or out of order do not shorten the hold.
func TestS07a_renewals_out_of_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{NoKeepAlive: true})
		if err := h.Renew(t.Context(), time.Minute); err != nil { // the first attempt is held back
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
	inBubble(t, "extends, and sets the TTL of the keep-alive", func(t *testing.T) {
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
	inBubble(t, "never shortens", func(t *testing.T) {
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
			t.Errorf("%v left in the store: later renewals do not use the new TTL", left)
		}
		if n := f.Calls(drivertest.Renew); n < 150 {
			t.Errorf("%d renewals in a minute with a TTL of 1 s", n)
		}
		if err := h.Renew(t.Context(), 0); err != nil || h.Left() > time.Second {
			t.Errorf("Renew(0): %v left, error %v; want the TTL so far", h.Left(), err)
		}
	})
	inBubble(t, "without an answer", func(t *testing.T) {
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
	inBubble(t, "ctx ends", func(t *testing.T) {
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
	inBubble(t, "of an ended hold", func(t *testing.T) {
		f := faulty(t, memlock.New(nil))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		unlock(t, h)
		if err := h.Renew(t.Context(), time.Hour); !errors.Is(err, holdfast.ErrReleased) {
			t.Errorf("after Unlock: %v", err)
		}
		h = lock(t, c, "r", nil)
		if _, err := newClient(t, f, nil).Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
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
			t.Error("the context has not ended")
		}
	})
}

// Unlock while a renewal is under way: wherever the renewal is, the hold does not come back
// and no loss is reported.
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
						HoldEnd: func(_ context.Context, info holdfast.HoldInfo) {
							if errors.Is(info.Err, holdfast.ErrLost) {
								t.Errorf("told of a loss: %v", info.Err)
							}
						},
					}})
					h := lock(t, c, "r", nil)
					time.Sleep(10 * time.Second) // until the renewal
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

// An answer to a renewal has no effect after the hold was released.
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
				t.Errorf("TTL %v: %d renewals in 100 TTLs", ttl, n)
			}
			if left := h.Left(); left < ttl/2 {
				t.Errorf("TTL %v: only %v left", ttl, left)
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

// For a while the replies or the requests of renewals get lost: they are repeated, and the
// hold lives on.
func TestS06_renewal_lost_for_a_while(t *testing.T) {
	for name, fault := range map[string]func() drivertest.Fault{
		"requests":       func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} },
		"replies":        func() drivertest.Fault { return drivertest.Fault{LoseReply: true} },
		"results":        func() drivertest.Fault { return drivertest.Fault{DropLast: 1} },
		"replies, hangs": func() drivertest.Fault { return drivertest.Fault{HoldReply: make(chan struct{})} },
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			var down atomic.Bool
			f := faulty(t, store, while(&down, each(drivertest.Renew, fault)))
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
	}
}

// One lost renewal does not lose a lock, however short its TTL: its timeout leaves time for
// another one.
func TestS06_renewal_hangs_once(t *testing.T) {
	for _, ttl := range []time.Duration{holdfast.MinTTL, time.Second, 3 * time.Second, 30 * time.Second} {
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

// Each renewal of a batch has its own outcome.
func TestBatchOutcomes(t *testing.T) {
	three := func(t *testing.T, c *holdfast.Client) (hs [3]*holdfast.Hold) {
		for i := range hs {
			hs[i] = lock(t, c, fmt.Sprint(i), nil)
		}
		return hs
	}
	inBubble(t, "missing is unknown", func(t *testing.T) {
		f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{DropLast: 1}, 1, 2))
		c := newClient(t, f, nil)
		hs := three(t, c)
		time.Sleep(time.Minute)
		for _, h := range hs {
			alive(t, h)
		}
	})
	inBubble(t, "one is lost", func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		hs := three(t, c)
		if _, err := newClient(t, store, nil).Admin().ForceRelease(t.Context(), "1", holdfast.HoldID{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		mustEnd(t, hs[1], time.Millisecond, holdfast.ErrForced)
		alive(t, hs[0])
		alive(t, hs[2])
	})
	inBubble(t, "one batch hangs", func(t *testing.T) {
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
}

// However many holds there are, and whenever they were acquired, they are renewed together.
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

		var allowed float64 // one call for 500 holds in each renewal period
		for _, ttl := range ttls {
			allowed += float64(holds) / float64(len(ttls)) / 500 * float64(observed) / float64(ttl/3)
		}
		t.Logf("%d calls in %v, %.0f are allowed; %d requests, at most %d in a call", calls, observed, allowed, requests.Load(), largest.Load())
		if float64(calls) > allowed {
			t.Errorf("%d calls in %v, want at most %.0f", calls, observed, allowed)
		}
		if n := largest.Load(); n > 1000 {
			t.Errorf("%d renewals in one call", n)
		}
		for _, h := range hs {
			alive(t, h)
		}
		if n, _ := goroutines(); n > goroutinesBefore {
			t.Errorf("%d goroutines, %d before", n, goroutinesBefore)
		}
	})
}

// An answer to a renewal that belongs to another operation means unknown, not lost.
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

// A store that needs time for each hold of a batch, and answers all or none, gets smaller
// batches until it answers in time.
func TestBatchesShrink(t *testing.T) {
	for _, each := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 5 * time.Millisecond} {
		inBubble(t, each.String(), func(t *testing.T) {
			f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Renew {
					return drivertest.Fault{HoldRequest: after(time.Duration(len(c.Refs)) * each)}
				}
				return drivertest.Fault{}
			})
			c := newClient(t, f, &holdfast.Options{TTL: 5 * time.Second})
			var holds []*holdfast.Hold
			for i := range 1000 {
				holds = append(holds, lock(t, c, fmt.Sprint(i), nil))
			}
			time.Sleep(time.Minute)
			for _, h := range holds {
				alive(t, h)
			}
		})
	}
}

// When the store answers again, the batches grow again.
func TestBatchesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var calls atomic.Int64
		f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Renew {
				calls.Add(1)
			}
			return drivertest.Fault{LoseRequest: c.Op == drivertest.Renew && down.Load()}
		})
		c := newClient(t, f, nil)
		for i := range 1000 {
			lock(t, c, fmt.Sprint(i), nil)
		}
		down.Store(true)
		time.Sleep(20 * time.Second)
		if n := calls.Load(); n < 64 || n > 1000 {
			t.Errorf("%d requests during an outage", n)
		}
		down.Store(false)
		time.Sleep(5 * time.Minute)
		calls.Store(0)
		time.Sleep(time.Minute)
		if n := calls.Load(); n > 8 {
			t.Errorf("%d requests in a minute for 1,000 holds", n)
		}
	})
}

// Short locks that are lost to a slow store do not take a long lock with them: they do not
// limit the time of its renewals.
func TestShortLocksBesideALongOne(t *testing.T) {
	for _, slow := range []time.Duration{110 * time.Millisecond, 250 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			together := func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Renew && len(c.Refs) > 1 {
					t.Errorf("%v: the locks were renewed together", slow)
				}
				return drivertest.Fault{}
			}
			f := faulty(t, memlock.New(nil), together, delayed(drivertest.Acquire, slow), delayed(drivertest.Renew, slow))
			c := newClient(t, f, nil)
			long := lock(t, c, "long", nil)
			lost := 0
			for began := time.Now(); time.Since(began) < 5*time.Minute; {
				short := lock(t, c, "short", &holdfast.LockOptions{TTL: holdfast.MinTTL})
				select {
				case <-short.Context().Done():
					lost++
				case <-time.After(time.Second):
				}
				_ = short.Unlock(t.Context()) // it may be lost
			}
			if lost < 100 {
				t.Errorf("%v: only %d short locks were lost", slow, lost)
			}
			alive(t, long)
		})
	}
}

// A renewal that hangs in every batch is soon alone and loses only its own lock.
func TestOneRenewalHangs(t *testing.T) {
	for _, n := range []int{2, 16, 100, 1000, 3000} {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
				hangs := c.Op == drivertest.Renew && slices.ContainsFunc(c.Refs, func(r driver.HoldRef) bool { return r.Resource == "0" })
				if hangs {
					return drivertest.Fault{HoldRequest: make(chan struct{})}
				}
				return drivertest.Fault{}
			})
			c := newClient(t, f, nil)
			hs := make([]*holdfast.Hold, n)
			for i := range hs {
				hs[i] = lock(t, c, fmt.Sprint(i), nil)
			}
			time.Sleep(time.Minute)
			mustEnd(t, hs[0], time.Millisecond, holdfast.ErrUnreachable)
			for _, h := range hs[1:] {
				alive(t, h)
			}
		})
	}
}

// A hold that the store might keep forever is released as soon as the store answers again,
// however the hold came to have no end, however long the outage was, and whatever else is to
// be cleaned up. After that the Client sends no more releases.
func TestEndlessGoesInTheEnd(t *testing.T) {
	firstUnheard := on(drivertest.Acquire, drivertest.Fault{LoseReply: true}, 1)
	forever := &holdfast.LockOptions{TTL: holdfast.Forever}
	for name, test := range map[string]struct {
		rule      rule // in addition to the outage
		o         *holdfast.LockOptions
		do        func(t *testing.T, c *holdfast.Client, h *holdfast.Hold) // called before the outage
		ends      bool                                                     // it is lost before Unlock
		forgotten bool                                                     // Unlock is not called
		off       func(t *testing.T, c *holdfast.Client, h *holdfast.Hold) // called during the outage, before Unlock
	}{
		"Lock": {o: forever},
		"RenewID": {do: func(t *testing.T, c *holdfast.Client, h *holdfast.Hold) {
			if _, err := c.Admin().RenewID(t.Context(), h.LockID(), holdfast.Forever); err != nil {
				t.Error(err)
			}
		}},
		"and then a TTL": {o: forever, do: func(t *testing.T, _ *holdfast.Client, h *holdfast.Hold) {
			if err := h.Renew(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
		}},
		"Renew without an answer": {
			rule: on(drivertest.Renew, drivertest.Fault{LoseReply: true}),
			do: func(t *testing.T, _ *holdfast.Client, h *holdfast.Hold) {
				if err := h.Renew(t.Context(), holdfast.Forever); err == nil {
					t.Error("the call was answered")
				}
			},
		},
		"Renew without an answer, lost": {
			rule: on(drivertest.Renew, drivertest.Fault{LoseReply: true}),
			do: func(t *testing.T, _ *holdfast.Client, h *holdfast.Hold) {
				if err := h.Renew(t.Context(), holdfast.Forever); err == nil {
					t.Error("the call was answered")
				}
			},
			ends: true,
		},
		"Renew without an answer, lost, no Unlock": {
			rule: on(drivertest.Renew, drivertest.Fault{LoseReply: true}),
			do: func(t *testing.T, _ *holdfast.Client, h *holdfast.Hold) {
				if err := h.Renew(t.Context(), holdfast.Forever); err == nil {
					t.Error("the call was answered")
				}
			},
			ends: true, forgotten: true,
		},
		"an attempt before, ForceRelease": {
			rule: firstUnheard, o: forever,
			off: func(t *testing.T, c *holdfast.Client, h *holdfast.Hold) {
				_, _ = c.Admin().ForceRelease(t.Context(), "r", h.ID()) // it fails
			},
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			var down atomic.Bool
			store := memlock.New(nil)
			rules := []rule{func(c drivertest.Call) drivertest.Fault {
				if down.Load() && c.Op != drivertest.List {
					return drivertest.Fault{LoseRequest: true}
				}
				return drivertest.Fault{}
			}}
			if test.rule != nil {
				rules = append(rules, test.rule)
			}
			f := faulty(t, store, rules...)
			c := newClient(t, f, nil)
			h := lock(t, c, "r", test.o)
			if test.do != nil {
				test.do(t, c, h)
			}
			down.Store(true)
			if test.ends {
				mustEnd(t, h, time.Minute, holdfast.ErrUnreachable)
			}
			if test.off != nil {
				test.off(t, c, h)
			}
			if !test.forgotten && h.Unlock(t.Context()) == nil {
				t.Error("Unlock succeeded")
			}
			time.Sleep(time.Hour)
			if len(holdsIn(t, store, "r")) != 1 {
				t.Fatal("requests got through during the outage")
			}
			down.Store(false)
			time.Sleep(time.Minute)
			mustBeFree(t, store, "r")
			asked := f.Calls(drivertest.Release)
			time.Sleep(24 * time.Hour)
			if more := f.Calls(drivertest.Release) - asked; more != 0 {
				t.Errorf("the clean-up sent %d more releases", more)
			}
		})
	}
}

// If there are too many orphans, the ones that expire by themselves are dropped first.
func TestEndlessIsNotLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		store := memlock.New(nil)
		f := faulty(t, store, outage(&down))
		c := newClient(t, f, nil)
		var holds []*holdfast.Hold
		for i := range 20 {
			holds = append(holds, lock(t, c, fmt.Sprint("forever ", i), &holdfast.LockOptions{TTL: holdfast.Forever}))
		}
		down.Store(true)
		var all sync.WaitGroup
		for _, h := range holds {
			all.Go(func() { _ = h.Unlock(t.Context()) })
		}
		all.Wait()
		for i := range 20_000 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				_, _ = c.TryLock(ctx, fmt.Sprint(i), &holdfast.LockOptions{TTL: time.Hour})
			})
		}
		all.Wait()
		down.Store(false)
		time.Sleep(time.Minute)
		if n := len(holdsIn(t, store, "")); n != 0 {
			t.Errorf("%d of %d holds stay", n, len(holds))
		}
	})
}

// The clean-up of a failed UnlockAfter does not shorten the delay of the next one.
func TestDelayOfTheNextUnlock(t *testing.T) {
	for name, o := range map[string]*holdfast.LockOptions{"forever": {TTL: holdfast.Forever}, "with an end": {TTL: time.Minute}} {
		inBubble(t, name, func(t *testing.T) {
			var down atomic.Bool
			store := memlock.New(nil)
			f := faulty(t, store, cutOff(&down, drivertest.Fault{LoseRequest: true}),
				on(drivertest.Acquire, drivertest.Fault{LoseReply: true}, 1)) // so that there is something to clean up
			c := newClient(t, f, nil)
			h := lock(t, c, "r", o)
			down.Store(true)
			if err := h.UnlockAfter(t.Context(), 10*time.Second); err == nil {
				t.Error("UnlockAfter succeeded")
			}
			time.Sleep(7 * time.Second)
			down.Store(false)
			if err := h.UnlockAfter(t.Context(), 10*time.Second); err != nil {
				t.Error(err)
			}
			time.Sleep(10*time.Second - time.Millisecond)
			if len(holdsIn(t, store, "r")) != 1 {
				t.Error("the resource was free before the end of the delay")
			}
			time.Sleep(time.Minute)
			mustBeFree(t, store, "r")
		})
	}
}

// An Unlock after a failed UnlockAfter, such as a deferred one, keeps the delay.
func TestUnlockKeepsTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		store := memlock.New(nil)
		c := newClient(t, faulty(t, store, cutOff(&down, drivertest.Fault{LoseReply: true})), nil)
		h := lock(t, c, "r", &holdfast.LockOptions{TTL: time.Minute})
		down.Store(true)
		began := time.Now()
		if err := h.UnlockAfter(t.Context(), 20*time.Second); err == nil {
			t.Error("UnlockAfter succeeded")
		}
		down.Store(false)
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(20*time.Second - time.Millisecond - time.Since(began))
		if len(holdsIn(t, store, "r")) != 1 {
			t.Error("the resource was free before the end of the delay")
		}
		time.Sleep(2 * time.Millisecond)
		mustBeFree(t, store, "r")
	})
}

// The clean-up continues while a takeover delay blocks the resource.
func TestTakeoverDelayIsCleanedUp(t *testing.T) {
	o := &holdfast.LockOptions{TTL: 5 * time.Second, TakeoverDelay: time.Hour}
	for name, leave := range map[string]func(t *testing.T, c *holdfast.Client, down *atomic.Bool){
		"acquire without an answer": func(t *testing.T, c *holdfast.Client, down *atomic.Bool) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			time.AfterFunc(time.Microsecond, func() { down.Store(true) })
			if _, err := c.TryLock(ctx, "r", o); err == nil {
				t.Error("the call was answered")
			}
		},
		"lost": func(t *testing.T, c *holdfast.Client, down *atomic.Bool) {
			// The first acquire has no answer, the second finds its hold.
			h := lock(t, c, "r", o)
			down.Store(true)
			mustEnd(t, h, time.Minute, holdfast.ErrUnreachable)
			if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Error(err)
			}
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			var down atomic.Bool
			store := memlock.New(nil)
			f := faulty(t, store, outage(&down), on(drivertest.Acquire, drivertest.Fault{LoseReply: true}, 1))
			leave(t, newClient(t, f, nil), &down)
			time.Sleep(20 * time.Second) // longer than for two TTLs
			down.Store(false)
			time.Sleep(time.Minute)
			mustBeFree(t, store, "r")
		})
	}
}

// Close and ReleaseID notice that a hold has expired although no timer has fired, because the
// machine slept.
func TestGivenUpAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(*holdfast.Client, *holdfast.Hold) error{
		"Close": func(c *holdfast.Client, _ *holdfast.Hold) error { return c.Close() },
		"ReleaseID": func(c *holdfast.Client, h *holdfast.Hold) error {
			return second(c.Admin().ReleaseID(context.Background(), h.LockID()))
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			machine := newSleeper()
			store := memlock.New(&memlock.Options{Now: machine.now})
			c := newClient(t, store, holdfast.WithClock(machine.clock, nil))
			h := lock(t, c, "r", &holdfast.LockOptions{TakeoverDelay: time.Hour})
			machine.sleep(time.Minute)
			if err := end(c, h); err != nil {
				t.Error(err)
			}
			if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("Unlock: %v; context: %v", err, context.Cause(h.Context()))
			}
		})
	}
}

// A slow store gets the time that it needs.
func TestSlowReleases(t *testing.T) {
	for n := 1; n <= 2; n++ {
		synctest.Test(t, func(t *testing.T) {
			c := unswept(faulty(t, memlock.New(nil), delayed(drivertest.Release, 3*time.Second)), nil)
			for i := range n {
				lock(t, c, fmt.Sprint(i), nil)
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close of %d: %v", n, err)
			}
		})
	}
}

// An orphan whose release hangs delays few others when the Client closes.
func TestCloseWithOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		store := memlock.New(nil)
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{LoseReply: true}), func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Release && down.Load() {
				return drivertest.Fault{LoseRequest: true}
			}
			for _, ref := range c.Refs {
				if c.Op == drivertest.Release && ref.Resource == "100" {
					return drivertest.Fault{HoldRequest: make(chan struct{})}
				}
			}
			return drivertest.Fault{}
		})
		c := unswept(f, nil)
		var all sync.WaitGroup
		for i := range 201 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				_, _ = c.TryLock(ctx, fmt.Sprint(i), &holdfast.LockOptions{TTL: time.Hour})
			})
		}
		all.Wait()
		time.Sleep(4 * time.Second)
		down.Store(false)
		began := time.Now()
		_ = c.Close() // the hanging release is not that of a caller's hold
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
		if n := len(holdsIn(t, store, "")); n > 16 {
			t.Errorf("%d holds stay", n)
		}
	})
}

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
