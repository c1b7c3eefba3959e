package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

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
			time.Sleep(10 * time.Second)
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
