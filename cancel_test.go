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

// With an ended ctx no operation sends anything.
func TestS11_dead_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, memlock.New(nil))
		c := newClient(t, f, nil)
		h := lock(t, c, "held", &holdfast.LockOptions{LockID: "id"})
		sent := func() (n int) {
			for _, op := range []drivertest.Op{
				drivertest.Acquire, drivertest.Renew, drivertest.Release, drivertest.List, drivertest.Sweep, drivertest.Watch,
			} {
				n += f.Calls(op)
			}
			return n
		}
		before := sent()
		why := errors.New("own reasons")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		for name, err := range map[string]error{
			"Lock":     second(c.Lock(ctx, "r", nil)),
			"TryLock":  second(c.TryLock(ctx, "r", nil)),
			"RLock":    second(c.RLock(ctx, "r", nil)),
			"TryRLock": second(c.TryRLock(ctx, "r", nil)),
			"Do": c.Do(ctx, "r", nil, func(context.Context) error {
				t.Error("fn ran")
				return nil
			}),
			"Renew":        h.Renew(ctx, time.Hour),
			"ReleaseID":    second(c.Admin().ReleaseID(ctx, "id")),
			"RenewID":      second(c.Admin().RenewID(ctx, "id", time.Hour)),
			"ForceRelease": second(c.Admin().ForceRelease(ctx, "held", h.ID())),
			"Sweep":        second(c.Admin().Sweep(ctx)),
			"Holds":        firstError(ctx, c),
		} {
			saysNothing(t, name, why, err)
		}
		if n := sent() - before; n != 0 {
			t.Errorf("the store was called %d times", n)
		}
		alive(t, h)
	})
}

func second[T any](_ T, err error) error { return err }

func firstError(ctx context.Context, c *holdfast.Client) error {
	for _, err := range c.Admin().Holds(ctx, holdfast.Filter{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// A ctx ends during an attempt. Wherever the attempt was, no orphan blocks the resource for
// long.
func TestS12_cancelled_in_mid_acquire(t *testing.T) {
	for name, test := range map[string]struct {
		fault     func() drivertest.Fault
		releases  int           // how many of them fail
		freeAfter time.Duration // at most
	}{
		"request lost":                 {func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} }, 0, 0},
		"reply lost":                   {func() drivertest.Fault { return drivertest.Fault{HoldReply: make(chan struct{})} }, 0, 0},
		"reply lost and releases fail": {func() drivertest.Fault { return drivertest.Fault{HoldReply: make(chan struct{})} }, 4, time.Second},
		"request late":                 {func() drivertest.Fault { return drivertest.Fault{HoldRequest: after(time.Second)} }, 0, 3 * time.Second},
		"request very late":            {func() drivertest.Fault { return drivertest.Fault{HoldRequest: after(25 * time.Second)} }, 0, 32 * time.Second},
		"request behind its release":   {func() drivertest.Fault { return drivertest.Fault{Behind: drivertest.Release} }, 0, time.Second},
	} {
		for way, take := range map[string]func(context.Context, *holdfast.Client) (*holdfast.Hold, error){
			"Lock": func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) { return c.Lock(ctx, "r", nil) },
			"TryRLock": func(ctx context.Context, c *holdfast.Client) (*holdfast.Hold, error) {
				return c.TryRLock(ctx, "r", nil)
			},
		} {
			inBubble(t, name+", "+way, func(t *testing.T) {
				store := memlock.New(nil)
				f := faulty(t, store,
					on(drivertest.Acquire, test.fault(), 1),
					func(c drivertest.Call) drivertest.Fault {
						return drivertest.Fault{LoseRequest: c.Op == drivertest.Release && c.N <= test.releases}
					})
				c := newClient(t, f, nil)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				began := time.Now()
				h, err := take(ctx, c)
				if h != nil || !errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrHeld) {
					t.Fatalf("got %v, %v", h, err)
				}
				if took := time.Since(began); took != 100*time.Millisecond {
					t.Errorf("took %v", took)
				}
				time.Sleep(test.freeAfter)
				synctest.Wait()
				mustBeFree(t, store, "r")
				// The resource stays free.
				time.Sleep(time.Minute)
				mustBeFree(t, store, "r")
			})
		}
	}
}

// Two requests are under way when ctx ends, and the clean-up releases the hold of one of
// them. The other arrives later and is released as well.
func TestS12_one_of_two_requests_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive}, 1),
			on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})}, 2))
		c := newClient(t, f, nil)
		ctx, cancel := context.WithCancel(t.Context())
		got := locking(ctx, c, "r", nil)
		for len(holdsIn(t, store, "r")) == 0 {
			time.Sleep(time.Second)
		}
		cancel()
		if r := <-got; !errors.Is(r.err, context.Canceled) {
			t.Fatal(r.err)
		}
		synctest.Wait()
		mustBeFree(t, store, "r")
		time.Sleep(5100 * time.Millisecond) // clean-ups run each quarter of a second
		close(arrive)
		synctest.Wait()
		if len(holdsIn(t, store, "r")) != 1 {
			t.Fatal("the first request did not arrive")
		}
		// A clean-up runs every TTL/8, plus or minus a half.
		time.Sleep(30 * time.Second / 8 * 3 / 2)
		synctest.Wait()
		mustBeFree(t, store, "r")
	})
}

// In the worst case an acquire arrives long after its clean-up has ended. Its hold lives for
// one TTL, and no caller gets it.
func TestLateAcquireLivesOneTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive}, 1))
		c := newClient(t, f, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "r", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		releases := f.Calls(drivertest.Release)
		time.Sleep(5 * time.Minute)
		if n := f.Calls(drivertest.Release); n != releases || n > 40 {
			t.Errorf("the clean-up does not end: %d releases, then %d", releases, n)
		}
		close(arrive)
		synctest.Wait()
		if len(holdsIn(t, store, "r")) != 1 {
			t.Fatal("the acquire did not arrive")
		}
		began := time.Now()
		h := lock(t, c, "r", nil)
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("it blocked for %v, want one TTL", took)
		}
		mustBeHeldBy(t, store, h)
	})
}

// A copy of the acquire arrives while its hold lives, after its release, and after it has
// expired.
func TestRepeatedAcquireArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1))
		c := newClient(t, f, nil)
		h := lock(t, c, "r", nil)
		time.Sleep(15 * time.Second)
		left := h.Left()
		close(arrive)
		synctest.Wait()
		mustBeHeldBy(t, store, h)
		if h.Left() != left {
			t.Errorf("a copy of the acquire changed the time left: %v, before %v", h.Left(), left)
		}
		time.Sleep(time.Minute)
		alive(t, h)
	})
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1))
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		unlock(t, h)
		close(arrive)
		synctest.Wait()
		began := time.Now()
		next := lock(t, d, "r", nil)
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("it blocked for %v, want one TTL at most", took)
		}
		if next.Token() <= h.Token() {
			t.Errorf("token %d follows %d", next.Token(), h.Token())
		}
	})
}

// A copy of an attempt that was refused is not taken for the attempt that had no answer.
func TestCopyOfTheRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &recorder{Store: memlock.New(nil)}
		arrive := make(chan struct{})
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1))
		c, d := newClient(t, f, nil), newClient(t, store.Store, nil)
		h := lock(t, d, "r", nil)
		_, err := c.TryLock(t.Context(), "r", nil)
		mustBeHeld(t, err)
		unlock(t, h)
		time.Sleep(3 * time.Second)
		if _, err := store.Store.Acquire(t.Context(), store.acquires[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		mustBeFree(t, store.Store, "r")
		close(arrive)
		time.Sleep(10 * time.Second)
		mustBeFree(t, store.Store, "r")
	})
}

// recorder keeps the acquires that reach a store.
type recorder struct {
	driver.Store
	acquires []driver.AcquireRequest
}

func (r *recorder) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	r.acquires = append(r.acquires, q)
	return r.Store.Acquire(ctx, q)
}

func TestS13_unlock_with_dead_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		slow := faulty(t, store, delayed(drivertest.Release, 2*time.Second))
		c := newClient(t, slow, nil)
		ctx, cancel := context.WithCancel(t.Context())
		h, err := c.Lock(ctx, "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := h.Unlock(ctx); err != nil {
			t.Errorf("Unlock: %v", err)
		}
		mustBeFree(t, store, "r")

		func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := c.Do(ctx, "r", nil, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrReleased) {
				t.Errorf("Do: %v", err)
			}
		}()
		mustBeFree(t, store, "r")
	})
}

// The holder's context ends, and renewals stop, before the store gets the release: after it
// the resource may be granted to another client.
func TestUnlockTellsTheHolderFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended func() error // the error of the hold's context, obtained earlier, as a worker has it
		f := faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Release && ended() == nil {
				t.Error("the store got the release while the holder's context was alive")
			}
			return drivertest.Fault{}
		})
		c := newClient(t, f, nil)
		take := func() *holdfast.Hold {
			h := lock(t, c, "r", nil)
			ended = h.Context().Err
			return h
		}
		h := take()
		unlock(t, h)
		h = take()
		if err := h.UnlockAfter(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		h = take()
		if _, err := c.Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
			t.Error(err)
		}
		take()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Unlock repeats a release without an answer for 5 s or until the hold expires. After that
// Unlock may be called again.
func TestUnlockRepeats(t *testing.T) {
	for name, test := range map[string]struct {
		fault func() drivertest.Fault
		ttl   time.Duration
		most  time.Duration
	}{
		"lost":            {func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} }, 30 * time.Second, 5 * time.Second},
		"hangs":           {func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} }, 30 * time.Second, 5 * time.Second},
		"lost, short TTL": {func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} }, time.Second, time.Second},
		"hangs, short":    {func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} }, time.Second, time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			broken := true
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Release && broken {
					return test.fault()
				}
				return drivertest.Fault{}
			})
			c := newClient(t, f, nil)
			h := lock(t, c, "r", &holdfast.LockOptions{TTL: test.ttl})
			began := time.Now()
			err := h.Unlock(t.Context())
			if err == nil || errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrReleased) {
				t.Fatalf("Unlock: got error %v, want one that says the outcome is unknown", err)
			}
			if took := time.Since(began); took > test.most {
				t.Errorf("gave up after %v, want at most %v", took, test.most)
			}
			if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrReleased) {
				t.Errorf("the context ended with %v", cause)
			}
			if err := h.Renew(t.Context(), 0); !errors.Is(err, holdfast.ErrReleased) {
				t.Errorf("Renew: %v", err)
			}
			broken = false
			unlock(t, h)
			mustBeFree(t, store, "r")
			calls := f.Calls(drivertest.Release)
			unlock(t, h)
			if n := f.Calls(drivertest.Release); n != calls {
				t.Error("Unlock repeated a confirmed release")
			}
		})
	}
}

// After UnlockAfter the released hold blocks the resource for the delay.
func TestUnlockAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		next := locking(t.Context(), d, "r", nil)
		inLine := locking(t.Context(), c, "r", nil)
		synctest.Wait()
		began := time.Now()
		if err := h.UnlockAfter(t.Context(), 7*time.Second); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) != 0 {
			t.Error("UnlockAfter waited")
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrReleased) {
			t.Errorf("the context ended with %v", cause)
		}
		for range 2 {
			select {
			case r := <-next:
				if r.err != nil || r.at.Sub(began) < 7*time.Second || r.at.Sub(began) > 8*time.Second {
					t.Errorf("granted after %v, error %v", r.at.Sub(began), r.err)
				}
				unlock(t, r.hold)
				next = nil
			case r := <-inLine:
				if r.err != nil || r.at.Sub(began) < 7*time.Second || r.at.Sub(began) > 8*time.Second {
					t.Errorf("granted after %v, error %v", r.at.Sub(began), r.err)
				}
				unlock(t, r.hold)
				inLine = nil
			}
		}

		// But never longer than the hold would have lived.
		h = lock(t, c, "r", &holdfast.LockOptions{TTL: 5 * time.Second})
		began = time.Now()
		if err := h.UnlockAfter(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		lock(t, d, "r", nil)
		if took := time.Since(began); took > 5*time.Second+2*time.Millisecond {
			t.Errorf("granted after %v, want the 5 s of its TTL", took)
		}
		for _, bad := range []time.Duration{-1, holdfast.MaxTTL + 1, holdfast.Forever} {
			if err := h.UnlockAfter(t.Context(), bad); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("UnlockAfter(%v): %v", bad, err)
			}
		}
	})
}
