package holdfast_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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
