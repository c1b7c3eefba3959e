package adapt_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		o := &adapt.NamesOptions{Prefix: "tls/"}
		here, there := adapt.NewNames(mine, o), adapt.NewNames(others, o)
		is(t, here.Unlock(t.Context(), "a"), adapt.ErrNotHeld)
		is(t, here.RenewLockLease(t.Context(), "a", time.Hour), adapt.ErrNotHeld)
		is(t, here.Lock(t.Context(), "a"), nil)
		is(t, here.Lock(t.Context(), "b"), nil)
		if free(t, others, "tls/a") {
			t.Error("another resource is locked")
		}
		for name, n := range map[string]*adapt.Names{"this": here, "another": there} {
			if got, err := n.TryLock(t.Context(), "a"); got || err != nil {
				t.Errorf("TryLock by %s process: %v, error %v", name, got, err)
			}
			// The waits of both end with their ctx.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := n.Lock(ctx, "a")
			cancel()
			is(t, err, context.DeadlineExceeded)
			is(t, err, holdfast.ErrHeld)
		}
		is(t, here.Unlock(t.Context(), "a"), nil)
		got, err := there.TryLock(t.Context(), "a")
		if !got || err != nil {
			t.Errorf("TryLock after Unlock: %v, error %v", got, err)
		}
		is(t, here.Unlock(t.Context(), "b"), nil)
		is(t, here.Unlock(t.Context(), "a"), adapt.ErrNotHeld)
		is(t, there.Unlock(t.Context(), "a"), nil)
	})
}

// A name that a goroutine waits for is in use, whatever the store says.
func TestTryLockOfANameThatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, _, cut := unreachable(t)
		cut(true)
		n := adapt.NewNames(mine, nil)
		ended := make(chan error)
		go func() { ended <- n.Lock(t.Context(), "a") }()
		synctest.Wait()
		if ok, err := n.TryLock(t.Context(), "a"); ok || err != nil {
			t.Errorf("%v, error %v", ok, err)
		}
		if err := <-ended; err == nil {
			t.Error("the store does not have the lock")
		}
		if ok, err := n.TryLock(t.Context(), "a"); ok || err == nil {
			t.Errorf("TryLock returned %v, %v although no caller has the name", ok, err)
		}
	})
}

// Many goroutines of two processes: each name belongs to one goroutine at a time.
func TestNamesOfMany(t *testing.T) {
	mine, others := pair(t)
	var all sync.WaitGroup
	inside := make(map[string]*sync.Mutex)
	for _, name := range []string{"a", "b"} {
		inside[name] = new(sync.Mutex)
	}
	for _, c := range []*holdfast.Client{mine, others} {
		names := adapt.NewNames(c, nil)
		for name, mu := range inside {
			for range 10 {
				all.Go(func() {
					for range 10 {
						if err := names.Lock(t.Context(), name); err != nil {
							t.Error(err)
							return
						}
						if !mu.TryLock() {
							t.Error("two callers have the name")
						}
						mu.Unlock()
						if err := names.Unlock(t.Context(), name); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
	all.Wait()
}

// RenewLockLease, the bound ctx and Unlock report a lost lock, and the next holder keeps its
// own: another process, or a goroutine of the same process, which waits until the caller that
// lost the lock has called Unlock.
func TestNamesLoseALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others := pair(t)
		here, there := adapt.NewNames(mine, nil), adapt.NewNames(others, nil)
		is(t, here.Lock(t.Context(), "a"), nil)
		ctx, cancel := here.Bind(t.Context(), "a")
		defer cancel()
		seize(t, others, "a")
		is(t, there.Lock(t.Context(), "a"), nil)
		lost(t, ctx)
		is(t, here.RenewLockLease(t.Context(), "a", time.Hour), holdfast.ErrForced)

		granted := make(chan error, 1)
		go func() { granted <- here.Lock(t.Context(), "a") }()
		is(t, there.Unlock(t.Context(), "a"), nil)
		time.Sleep(time.Minute)
		select {
		case err := <-granted:
			t.Errorf("a goroutine gets the name beside the one that lost it, error %v", err)
		default:
		}
		is(t, here.Unlock(t.Context(), "a"), holdfast.ErrLost)
		is(t, <-granted, nil)
		if free(t, others, "a") {
			t.Error("Unlock of the lost lock released the next one")
		}
		is(t, here.Unlock(t.Context(), "a"), nil)

		ctx, cancel = here.Bind(t.Context(), "a")
		defer cancel()
		is(t, context.Cause(ctx), adapt.ErrNotHeld)
	})
}

func TestRenewLockLease(t *testing.T) {
	left := func(t *testing.T, c *holdfast.Client) time.Duration {
		for s, err := range c.Admin().Holds(t.Context(), holdfast.Filter{}) {
			is(t, err, nil)
			return s.Left
		}
		return 0
	}
	inBubble(t, "confirms", func(t *testing.T) {
		mine, others := pair(t)
		n := adapt.NewNames(mine, nil)
		is(t, n.Lock(t.Context(), "a"), nil)
		time.Sleep(time.Second)
		is(t, n.RenewLockLease(t.Context(), "a", 6*time.Hour), nil)
		if got := left(t, others); got != holdfast.DefaultTTL {
			t.Errorf("%v left: a killed process would block the others for that long", got)
		}
	})
	inBubble(t, "extends locks with NoKeepAlive", func(t *testing.T) {
		mine, others := pair(t)
		n := adapt.NewNames(mine, &adapt.NamesOptions{Lock: &holdfast.LockOptions{NoKeepAlive: true}})
		is(t, n.Lock(t.Context(), "a"), nil)
		is(t, n.RenewLockLease(t.Context(), "a", 6*time.Hour), nil)
		if got := left(t, others); got != 6*time.Hour {
			t.Errorf("the lock has %v left", got)
		}
	})
	// certmagic repeats an attempt whose renewal failed, for up to 30 days.
	inBubble(t, "reports a loss once", func(t *testing.T) {
		mine, others := pair(t)
		n := adapt.NewNames(mine, nil)
		is(t, n.Lock(t.Context(), "a"), nil)
		seize(t, others, "a")
		next, err := others.Lock(t.Context(), "a", nil)
		is(t, err, nil)
		is(t, n.RenewLockLease(t.Context(), "a", time.Hour), holdfast.ErrLost) // the renewal notices the loss
		is(t, n.RenewLockLease(t.Context(), "a", time.Hour), holdfast.ErrHeld)
		is(t, next.Unlock(t.Context()), nil)
		is(t, n.RenewLockLease(t.Context(), "a", time.Hour), nil)
		if free(t, others, "a") {
			t.Error("RenewLockLease succeeded without the lock")
		}
		is(t, n.RenewLockLease(t.Context(), "a", time.Hour), nil)
		is(t, n.Unlock(t.Context(), "a"), nil)
		if !free(t, others, "a") {
			t.Error("the name is locked after Unlock")
		}
	})
	inBubble(t, "after a loss of its own accord", func(t *testing.T) {
		mine, others, cut := unreachable(t)
		n := adapt.NewNames(mine, nil)
		is(t, n.Lock(t.Context(), "a"), nil)
		cut(true)
		ctx, cancel := n.Bind(t.Context(), "a")
		lost(t, ctx)
		cancel()
		is(t, n.RenewLockLease(t.Context(), "a", time.Hour), holdfast.ErrUnreachable)
		if err := n.RenewLockLease(t.Context(), "a", time.Hour); err == nil || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got error %v", err)
		}
		if ok, err := adapt.NewNames(mine, nil).TryLock(t.Context(), "b"); ok || err == nil {
			t.Errorf("TryLock without the store: %v, error %v", ok, err)
		}
		cut(false)
		time.Sleep(time.Minute)
		is(t, n.RenewLockLease(t.Context(), "a", time.Hour), nil)
		if free(t, others, "a") {
			t.Error("RenewLockLease succeeded without the lock")
		}
	})
}

// A RenewLockLease that acquires the lock again while Unlock gives the name up does not block
// the next caller, even with the same lock ID.
func TestRenewLockLeaseAndUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, others, set := failing(t)
		o := &holdfast.LockOptions{LockID: "pod-0"}
		n := adapt.NewNames(mine, &adapt.NamesOptions{Lock: o})
		is(t, n.Lock(t.Context(), "a"), nil)
		seize(t, others, "a")
		is(t, n.RenewLockLease(t.Context(), "a", time.Hour), holdfast.ErrForced)
		set(func(drivertest.Call) drivertest.Fault { return drivertest.Fault{HoldReply: after(time.Second)} })
		renewed := make(chan error, 1)
		go func() { renewed <- n.RenewLockLease(t.Context(), "a", time.Hour) }()
		synctest.Wait()
		set(works)
		is(t, n.Unlock(t.Context(), "a"), holdfast.ErrForced)
		is(t, n.Lock(t.Context(), "a"), nil)
		is(t, <-renewed, adapt.ErrNotHeld)
		is(t, n.Unlock(t.Context(), "a"), nil)
	})
}
