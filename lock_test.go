package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestLockAndUnlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty(t, memlock.New(nil))
		c := newClient(t, store, &holdfast.Options{Owner: "ann", Host: "one"})
		d := newClient(t, store, nil)

		h := lock(t, c, "r", &holdfast.LockOptions{LockID: "id", Comment: "why"})
		if h.Resource() != "r" || h.LockID() != "id" || h.Mode() != holdfast.Exclusive || h.ID().IsZero() || h.Token() == 0 {
			t.Errorf("got %q, %q, %v, %v, %d", h.Resource(), h.LockID(), h.Mode(), h.ID(), h.Token())
		}
		if n := store.Calls(drivertest.Acquire); n != 1 {
			t.Errorf("an acquire without contention took %d calls", n)
		}
		_, err := d.TryLock(t.Context(), "r", nil)
		held := heldError(t, err)
		if held.BySelf || held.Resource != "r" || len(held.Holders) != 1 || held.RetryAfter != 30*time.Second {
			t.Errorf("got %+v", held)
		}
		s := held.Holders[0]
		if s.LockID != "id" || s.HoldID != h.ID() || s.Owner != "ann" || s.Host != "one" || s.Comment != "why" {
			t.Errorf("the refusal shows the holder as %+v", s)
		}

		unlock(t, h)
		if n := store.Calls(drivertest.Release); n != 1 {
			t.Errorf("an unlock took %d calls", n)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrReleased) {
			t.Errorf("the context ended with %v", cause)
		}
		if h.Left() != 0 {
			t.Errorf("%v left after Unlock", h.Left())
		}
		unlock(t, h)
		if n := store.Calls(drivertest.Release); n != 1 {
			t.Errorf("the second Unlock sent a release")
		}
		next := tryLock(t, d, "r", nil)
		if next.Token() <= h.Token() {
			t.Errorf("token %d follows %d", next.Token(), h.Token())
		}
	})
}

func TestModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		two := &holdfast.LockOptions{Limit: 2}
		first, err := c.TryRLock(t.Context(), "r", two)
		if err != nil {
			t.Fatal(err)
		}
		second, err := c.RLock(t.Context(), "r", two)
		if err != nil || second.Mode() != holdfast.Shared {
			t.Fatal(second, err)
		}
		_, err = c.TryRLock(t.Context(), "r", two)
		if held := heldError(t, err); len(held.Holders) != 2 {
			t.Errorf("a semaphore of two names %d holders", len(held.Holders))
		}
		_, err = c.TryLock(t.Context(), "r", nil)
		mustBeHeld(t, err)
		// A request without the limit, or with another one, is refused.
		for _, other := range []*holdfast.LockOptions{nil, {Limit: 1}, {Limit: 3}} {
			_, err := c.TryRLock(t.Context(), "r", other)
			if held := heldError(t, err); !held.LimitDiffers {
				t.Errorf("the refusal of %+v does not say that the limits differ: %v", other, err)
			}
		}
		unlock(t, first)
		if _, err := c.TryRLock(t.Context(), "r", two); err != nil {
			t.Errorf("a permit was given back, yet: %v", err)
		}
	})
}

// After a lost reply the repeat gets the same grant, and the hold's life counts from the
// first attempt.
func TestS05_reply_lost(t *testing.T) {
	inBubble(t, "once", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{LoseReply: true}, 1))
		c := newClient(t, f, nil)
		began := time.Now()
		h := lock(t, c, "r", nil)
		if n := f.Calls(drivertest.Acquire); n != 2 {
			t.Errorf("%d acquires, want 2", n)
		}
		mustBeHeldBy(t, store, h)
		if want := 28125*time.Millisecond - time.Since(began); h.Left() != want {
			t.Errorf("%v left, want %v", h.Left(), want)
		}
	})
	inBubble(t, "after a time-out", func(t *testing.T) {
		store := memlock.New(nil)
		never := make(chan struct{})
		f := faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{HoldReply: never}, 1),
			on(drivertest.Renew, drivertest.Fault{HoldRequest: never}))
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		began := time.Now()
		h := lock(t, c, "r", nil)
		if time.Since(began) < time.Second {
			t.Fatal("the first attempt did not time out")
		}
		mustBeHeldBy(t, store, h)
		if want := 28125*time.Millisecond - time.Since(began); h.Left() != want {
			t.Errorf("%v left, want %v: the store counts from the first attempt", h.Left(), want)
		}
		successor := locking(t.Context(), d, "r", nil)
		mustEnd(t, h, time.Minute, holdfast.ErrUnreachable)
		lost := time.Now()
		if got := <-successor; got.err != nil || got.at.Before(lost) {
			t.Errorf("granted to another %v before the holder knew (error %v)", lost.Sub(got.at), got.err)
		}
	})
	for name, take := range map[string]func(*holdfast.Client) error{
		"always": func(c *holdfast.Client) error {
			_, err := c.Lock(context.Background(), "r", nil)
			return err
		},
		"always, of TryLock": func(c *holdfast.Client) error {
			_, err := c.TryLock(context.Background(), "r", nil)
			return err
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{LoseReply: true}))
			c := newClient(t, f, nil)
			began := time.Now()
			err := take(c)
			if !errors.Is(err, drivertest.ErrFault) || errors.Is(err, holdfast.ErrHeld) || errors.Is(err, holdfast.ErrLost) {
				t.Errorf("got error %v, want one that says the outcome is unknown", err)
			}
			if took := time.Since(began); took > 35*time.Second {
				t.Errorf("gave up after %v", took)
			}
			synctest.Wait()
			mustBeFree(t, store, "r")
		})
	}
}

// A grant that arrives after the hold's deadline is released and requested again, at most
// three times.
func TestS08_grant_too_late(t *testing.T) {
	second := &holdfast.LockOptions{TTL: time.Second}
	const late = 950 * time.Millisecond
	inBubble(t, "once", func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, faulty(t, store, delayed(drivertest.Acquire, late, 1)), nil)
		began := time.Now()
		h := lock(t, c, "r", second)
		if took := time.Since(began); took != late {
			t.Errorf("took %v", took)
		}
		if want := 750 * time.Millisecond; h.Left() != want {
			t.Errorf("%v left, want %v", h.Left(), want)
		}
		mustBeHeldBy(t, store, h)
	})
	for name, take := range map[string]func(context.Context, *holdfast.Client) (*holdfast.Hold, error){
		"always": func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) {
			return c.Lock(ctx, "r", second)
		},
		"always, of TryLock": func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) {
			return c.TryLock(ctx, "r", second)
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, delayed(drivertest.Acquire, late))
			c := newClient(t, f, nil)
			h, err := take(t.Context(), c)
			if !errors.Is(err, holdfast.ErrTTLTooShort) {
				t.Fatalf("got %v, %v, want ErrTTLTooShort", h, err)
			}
			if n := f.Calls(drivertest.Acquire); n != 3 {
				t.Errorf("%d acquires, want 3", n)
			}
			mustBeFree(t, store, "r")
		})
	}
	inBubble(t, "refused in between", func(t *testing.T) {
		// Late grants count only in a row: a refusal was in time.
		refusal := &driver.HeldError{Resource: "r", RetryAfter: driver.Unknown}
		f := faulty(t, memlock.New(nil),
			on(drivertest.Acquire, drivertest.Fault{LoseRequest: true, Err: refusal}, 3),
			delayed(drivertest.Acquire, late, 1, 2, 4))
		lock(t, newClient(t, f, nil), "r", second)
		if n := f.Calls(drivertest.Acquire); n != 5 {
			t.Errorf("%d acquires, want 5", n)
		}
	})
}

func TestS14_acquire_deadline_does_not_bound_the_lease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "kept"), time.Second)
		defer cancel()
		h, err := c.Lock(ctx, "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if ctx.Err() == nil {
			t.Fatal("the ctx of the acquire has not ended")
		}
		alive(t, h)
		if h.Context().Value(key{}) != "kept" {
			t.Error("the values of the acquire's ctx are gone")
		}
		if _, ok := h.Context().Deadline(); ok {
			t.Error("the hold's context has a deadline")
		}
		_, err = d.TryLock(t.Context(), "r", nil)
		mustBeHeld(t, err)
	})
}

func TestTakeoverDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		o := &holdfast.LockOptions{TTL: 10 * time.Second, TakeoverDelay: 20 * time.Second, NoKeepAlive: true}

		began := time.Now()
		h := lock(t, c, "expired", o)
		next := locking(t.Context(), d, "expired", nil)
		if ended := mustEnd(t, h, time.Minute, holdfast.ErrExpired); ended > 10*time.Second {
			t.Errorf("the holder knew only after %v", ended)
		}
		r := <-next
		if r.err != nil {
			t.Fatal(r.err)
		}
		if took := r.at.Sub(began); took < 30*time.Second || took > 30*time.Second+10*time.Millisecond {
			t.Errorf("taken over after %v, want TTL and delay: 30 s", took)
		}

		h = lock(t, c, "released", o)
		unlock(t, h)
		tryLock(t, d, "released", nil)
	})
}

// A store that answers but cannot grant is not asked again.
func TestLockGivesUpOnPermanentErrors(t *testing.T) {
	for _, want := range []error{driver.ErrUnusable, driver.ErrUnsupported, driver.ErrDamaged, driver.ErrInvalid} {
		synctest.Test(t, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), on(drivertest.Acquire, drivertest.Fault{LoseRequest: true, Err: want}))
			c := newClient(t, f, nil)
			if _, err := c.Lock(t.Context(), "r", nil); !errors.Is(err, want) || errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("Lock: got error %v, want %v", err, want)
			}
			if _, err := c.TryLock(t.Context(), "r", nil); !errors.Is(err, want) {
				t.Errorf("TryLock: got error %v, want %v", err, want)
			}
			if n := f.Calls(drivertest.Acquire); n != 2 {
				t.Errorf("%v: asked %d times, want 2", want, n)
			}
		})
	}
}
