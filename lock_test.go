package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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

// badNetwork loses, delays and reorders requests and replies, as determined by the seed.
func badNetwork(seed uint64, never <-chan struct{}) rule {
	rnd := rand.New(rand.NewPCG(seed, 0xbad))
	return func(drivertest.Call) drivertest.Fault {
		delay := time.Duration(rnd.Int64N(int64(3 * time.Second)))
		switch n := rnd.IntN(100); {
		case n < 5:
			return drivertest.Fault{LoseRequest: true}
		case n < 10:
			return drivertest.Fault{LoseReply: true}
		case n < 20:
			return drivertest.Fault{HoldRequest: after(delay)}
		case n < 25:
			return drivertest.Fault{HoldRequest: after(delay), LoseReply: true}
		case n < 35:
			return drivertest.Fault{HoldReply: after(delay)}
		case n < 37:
			return drivertest.Fault{HoldRequest: never}
		}
		return drivertest.Fault{}
	}
}

// witness sees all granted holds and judges them by their contexts.
type witness struct {
	mu    sync.Mutex
	alive map[string][]*holdfast.Hold
	seen  int
}

// granted records a hold. All holds that it excludes must have ended before. limit is the
// limit of a shared hold, or 0.
func (w *witness) granted(t *testing.T, h *holdfast.Hold, limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	r := h.Resource()
	shared := 0
	var alive []*holdfast.Hold
	for _, other := range w.alive[r] {
		if other.Context().Err() != nil {
			continue
		}
		alive = append(alive, other)
		if other.Mode() == holdfast.Exclusive || h.Mode() == holdfast.Exclusive {
			t.Errorf("%q: %v hold with token %d was granted while the %v one with token %d is held",
				r, h.Mode(), h.Token(), other.Mode(), other.Token())
		}
		if other.Token() < h.Token() { // a later hold may have another limit
			shared++
		}
	}
	if limit > 0 && shared >= limit {
		t.Errorf("%q: granted as one of at most %d, while %d are held", r, limit, shared)
	}
	w.alive[r] = append(alive, h)
}

// Many clients on bad networks: when a resource is granted, the contexts of all earlier holds
// that the grant excludes have ended.
func TestS01_holders_exclude_one_another(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			never := make(chan struct{})
			w := &witness{alive: make(map[string][]*holdfast.Hold)}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for i := range uint64(4) {
				c := newClient(t, faulty(t, store, badNetwork(seed<<8+i, never)), nil)
				for j := range uint64(5) {
					all.Go(func() {
						rnd := rand.New(rand.NewPCG(seed, i<<8+j))
						for ctx.Err() == nil {
							w.session(ctx, t, c, rnd)
						}
					})
				}
			}
			all.Wait()
			if w.seen < 50 {
				t.Errorf("seed %d: only %d grants", seed, w.seen)
			}
		})
	}
}

// session acquires a lock, holds it for a while, and releases it or leaves it.
func (w *witness) session(ctx context.Context, t *testing.T, c *holdfast.Client, rnd *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(1 + rnd.Int64N(int64(d))) }
	ctx, cancel := context.WithTimeout(ctx, upTo(20*time.Second))
	defer cancel()
	o := &holdfast.LockOptions{
		TTL:           holdfast.MinTTL + upTo(4*time.Second),
		TakeoverDelay: time.Duration(rnd.IntN(2)) * upTo(time.Second),
		NoKeepAlive:   rnd.IntN(4) == 0,
	}
	take := []func(context.Context, string, *holdfast.LockOptions) (*holdfast.Hold, error){
		c.Lock, c.TryLock, c.RLock, c.TryRLock,
	}
	kind := rnd.IntN(len(take))
	if kind >= 2 {
		o.Limit = rnd.IntN(4)
	}
	h, err := take[kind](ctx, fmt.Sprint(rnd.IntN(2)), o)
	if err != nil {
		time.Sleep(upTo(100 * time.Millisecond))
		return
	}
	w.granted(t, h, o.Limit)
	select {
	case <-h.Context().Done():
	case <-time.After(upTo(5 * time.Second)):
	}
	if rnd.IntN(3) == 0 {
		_ = h.Renew(ctx, upTo(5*time.Second)+holdfast.MinTTL)
	}
	if err := h.Unlock(ctx); errors.Is(err, holdfast.ErrReleased) || errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("Unlock: %v", err)
	}
}

// All methods of one Hold are called at once.
func TestHoldIsConcurrent(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, drivertest.RandomFaults(seed, 30))
			c := newClient(t, f, nil)
			h, err := c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for i := range uint64(8) {
				all.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, i))
					for range 20 {
						time.Sleep(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
						ctx, cancel := h.Bind(t.Context())
						switch n := rnd.IntN(40); {
						case n < 1:
							_ = h.Unlock(ctx)
						case n < 2:
							_ = h.UnlockAfter(ctx, time.Millisecond)
						case n < 3:
							_, _ = c.Admin().ReleaseID(ctx, h.LockID())
						case n < 15:
							_, _ = c.Admin().RenewID(ctx, h.LockID(), time.Second)
						default:
							_ = h.Renew(ctx, 0)
						}
						if h.Context().Err() == nil && h.Left() > time.Second {
							t.Errorf("an ended hold has %v left", h.Left())
						}
						cancel()
					}
				})
			}
			all.Wait()
			_ = h.Unlock(t.Context())
			if err := h.Unlock(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, drivertest.ErrFault) {
				t.Errorf("Unlock: %v", err)
			}
			if h.Context().Err() == nil || h.Left() != 0 {
				t.Error("the hold has not ended")
			}
			time.Sleep(2 * time.Second)
			mustBeFree(t, store, "r")
		})
	}
}

func TestS21_ttls(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		ttl, lives, left time.Duration // left: for the holder, without the margin
	}{
		{0, 30 * time.Second, 28125 * time.Millisecond},
		{500 * time.Millisecond, 500 * time.Millisecond, 375 * time.Millisecond},
		{500*time.Millisecond + 999*time.Microsecond, 500 * time.Millisecond, 375 * time.Millisecond},
		{time.Second, time.Second, 750 * time.Millisecond},
		{4 * time.Second, 4 * time.Second, 3750 * time.Millisecond},
		{time.Minute, time.Minute, 56250 * time.Millisecond},
		{year, year, year - 5*time.Second},
		{holdfast.MaxTTL, holdfast.MaxTTL, holdfast.MaxTTL - 5*time.Second},
		{holdfast.Forever, holdfast.Forever, holdfast.Forever},
	} {
		inBubble(t, test.ttl.String(), func(t *testing.T) {
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
	}
	for _, ttl := range []time.Duration{
		time.Millisecond, 499999 * time.Microsecond, -1, -time.Hour, holdfast.MaxTTL + time.Millisecond, holdfast.Forever - 1,
	} {
		inBubble(t, ttl.String(), func(t *testing.T) {
			f := faulty(t, memlock.New(nil))
			c, d := newClient(t, f, nil), newClient(t, f, &holdfast.Options{TTL: ttl})
			h := lock(t, c, "held", &holdfast.LockOptions{LockID: "id"})
			for name, err := range map[string]error{
				"Lock":       second(c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: ttl})),
				"TryRLock":   second(c.TryRLock(t.Context(), "r", &holdfast.LockOptions{TTL: ttl})),
				"by default": second(d.Lock(t.Context(), "r", nil)),
				"Renew":      h.Renew(t.Context(), ttl),
				"RenewID":    second(c.Admin().RenewID(t.Context(), "id", ttl)),
			} {
				if !errors.Is(err, holdfast.ErrInvalid) {
					t.Errorf("%s: got error %v, want ErrInvalid", name, err)
				}
			}
			if n := f.Calls(drivertest.Acquire) + f.Calls(drivertest.Renew); n != 1 {
				t.Errorf("%d calls were sent, want that of the lock", n)
			}
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
			"too small":              {Margin: 50*time.Millisecond - 1},
			"over half the TTL":      {Margin: 15*time.Second + 1},
			"over half of Forever's": {Margin: time.Minute, TTL: holdfast.Forever},
		} {
			if _, err := newClient(t, store, opts).TryLock(t.Context(), "c", nil); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s: got error %v, want ErrInvalid", name, err)
			}
		}
	})
}

// A hold without an end begins with a finite TTL, and is checked every 30 s.
func TestS21_forever(t *testing.T) {
	forever := &holdfast.LockOptions{TTL: holdfast.Forever}
	inBubble(t, "is checked", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, c, "r", forever)
		time.Sleep(time.Hour)
		if n := f.Calls(drivertest.Renew); n < 110 || n > 170 {
			t.Errorf("the hold was renewed %d times in an hour", n)
		}
		if _, err := d.Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
			t.Fatal(err)
		}
		if took := mustEnd(t, h, time.Hour, holdfast.ErrForced); took > 31*time.Second {
			t.Errorf("the holder noticed after %v", took)
		}
	})
	inBubble(t, "does not end in an outage", func(t *testing.T) {
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
	inBubble(t, "becomes so later", func(t *testing.T) {
		// The renewal to Forever has no answer: the Client repeats it, and until then the
		// hold has an end.
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
	inBubble(t, "never becomes so", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{LoseRequest: true}))
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, c, "r", forever)
		mustEnd(t, h, time.Minute, holdfast.ErrUnreachable)
		lock(t, d, "r", nil)
	})
	inBubble(t, "without a keep-alive", func(t *testing.T) {
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
			t.Error("the hold was renewed despite NoKeepAlive")
		}
	})
}
