package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// seeing is a store that shows the test the ctx of each call.
type seeing struct {
	driver.Store
	see func(op string, ctx context.Context)
}

func (s seeing) Acquire(ctx context.Context, r driver.AcquireRequest) (driver.Grant, error) {
	s.see("acquire", ctx)
	return s.Store.Acquire(ctx, r)
}

func (s seeing) Renew(ctx context.Context, rs []driver.RenewRequest) ([]driver.RenewResult, error) {
	s.see("renew", ctx)
	return s.Store.Renew(ctx, rs)
}

func (s seeing) Release(ctx context.Context, rs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	s.see("release", ctx)
	return s.Store.Release(ctx, rs)
}

// A store gets the caller's values and a deadline, whichever method of the ctx it calls
// first. An Unlock with an ended ctx passes a live one on.
func TestStoreSeesTheCallersContext(t *testing.T) {
	for name, first := range map[string]func(context.Context){
		"value":    func(context.Context) {},
		"done":     func(ctx context.Context) { _ = ctx.Done() },
		"deadline": func(ctx context.Context) { _, _ = ctx.Deadline() },
		"derived": func(ctx context.Context) {
			_, cancel := context.WithCancel(ctx)
			defer cancel()
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			type key struct{}
			var seen []context.Context
			c := newClient(t, seeing{memlock.New(nil), func(op string, ctx context.Context) {
				seen = append(seen, ctx)
				first(ctx)
				if ctx.Value(key{}) != "v" || ctx.Err() != nil {
					t.Errorf("%s: value %v, error %v", op, ctx.Value(key{}), ctx.Err())
				}
				end, ok := ctx.Deadline()
				if left := time.Until(end); !ok || left <= 0 || left > 10*time.Second {
					t.Errorf("%s: the ctx has a deadline in %v (%v)", op, left, ok)
				}
			}}, nil)
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
			h, err := c.Lock(ctx, "r", nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Renew(ctx, 0); err != nil {
				t.Error(err)
			}
			cancel()
			if err := h.Unlock(ctx); err != nil {
				t.Error(err)
			}
			if len(seen) != 3 {
				t.Errorf("saw %v", seen)
			}
			for i, ctx := range seen {
				if ctx.Err() == nil {
					t.Errorf("call %d: its ctx outlives the call", i)
				}
				select {
				case <-ctx.Done():
				default:
					t.Errorf("call %d: its ctx has ended but is not done", i)
				}
			}
		})
	}
}

// polling is a store that asks its ctx only for the error, never for the channel.
type polling struct{ driver.Store }

func (polling) Acquire(ctx context.Context, _ driver.AcquireRequest) (driver.Grant, error) {
	for ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return driver.Grant{}, ctx.Err()
}

// An attempt also times out in a store that only polls its ctx.
func TestAttemptThatIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, polling{memlock.New(nil)}, &holdfast.Options{TTL: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := c.TryLock(ctx, "r", nil)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("three attempts of 1 s ended after %v with %v", took, err)
		}
	})
}

// An error names the resource, the operation and the reason, each once.
func TestErrorTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, &holdfast.Options{Owner: "ann", Host: "one"})
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		h := lock(t, c, "r", &holdfast.LockOptions{LockID: "id"})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		lost := lock(t, c, "lost", nil)
		if _, err := c.Admin().ForceRelease(t.Context(), "lost", lost.ID()); err != nil {
			t.Fatal(err)
		}
		for want, err := range map[string]error{
			`holdfast: lock "s": context canceled`:                                            second(c.Lock(dead, "s", nil)),
			`holdfast: "r" is held by ann on one`:                                             second(c.TryLock(t.Context(), "r", nil)),
			`holdfast: "r" is held by ann on one: gave up waiting: context deadline exceeded`: second(c.Lock(short, "r", nil)),
			`holdfast: "r" is held by this caller or its lock ID`:                             second(c.Lock(t.Context(), "r", &holdfast.LockOptions{LockID: "id"})),
			`holdfast: lock "s": invalid: TTL 1ms is below 500ms`:                             second(c.Lock(t.Context(), "s", &holdfast.LockOptions{TTL: time.Millisecond})),
			`holdfast: renew "r": context canceled`:                                           h.Renew(dead, 0),
			`holdfast: no hold of lock ID "nobody" to renew: lost`:                            second(c.Admin().RenewID(t.Context(), "nobody", time.Hour)),
			"holdfast: lock of \"lost\" lost: the store no longer has it: released by force, or the store lost its data or its clock stepped": lost.Unlock(t.Context()),
		} {
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := second(c.Lock(t.Context(), "r", nil)); !errors.Is(err, holdfast.ErrClosed) || err.Error() != "holdfast: client closed" {
			t.Errorf("got %v", err)
		}
	})
}

// If the store does not answer an attempt in time, the error is not that of the caller's ctx.
func TestNoAnswerInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := drivertest.Fault{HoldRequest: make(chan struct{})}
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "held", &holdfast.LockOptions{LockID: "id", TTL: time.Hour})
		c := newClient(t, faulty(t, store,
			on(drivertest.Acquire, never), on(drivertest.Renew, never), on(drivertest.Release, never)), nil)
		own := lock(t, newClient(t, faulty(t, store, on(drivertest.Renew, never), on(drivertest.Release, never)), nil), "own",
			&holdfast.LockOptions{TTL: time.Hour})
		soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		for _, call := range []struct {
			want string
			make func() error
		}{
			{`holdfast: lock "r": context deadline exceeded`, func() error { return second(c.TryLock(soon, "r", nil)) }},
			{`holdfast: lock "r": no answer within 10s: context deadline exceeded`, func() error { return second(c.TryLock(t.Context(), "r", nil)) }},
			{`holdfast: lock "r": no answer within 2s: context deadline exceeded`, func() error {
				return second(c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: 6 * time.Second}))
			}},
			{`holdfast: renew "held": no answer within 1s: context deadline exceeded`, func() error { return second(c.Admin().RenewID(t.Context(), "id", time.Second)) }},
			{`holdfast: renew "own": no answer within 10s: context deadline exceeded`, func() error { return own.Renew(t.Context(), 0) }},
			{`holdfast: unlock "own": no answer within 5s: context deadline exceeded`, func() error { return own.Unlock(t.Context()) }},
		} {
			if err := call.make(); err == nil || err.Error() != call.want || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got  %v\nwant %s", err, call.want)
			}
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

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

// named has the errors of this package, each as the cause of an ended ctx: an errgroup
// cancels with the error of a goroutine, and Do with the loss of its lock.
var named = map[string]error{
	"held":        &holdfast.HeldError{Resource: "another"},
	"lost":        &holdfast.LostError{Resource: "another", Cause: holdfast.ErrForced},
	"unsupported": fmt.Errorf("another: %w", holdfast.ErrUnsupported),
	"invalid":     holdfast.ErrInvalid,
	"unusable":    fmt.Errorf("another: %w", holdfast.ErrUnusable),
	"damaged":     holdfast.ErrDamaged,
	"released":    holdfast.ErrReleased,
	"closed":      holdfast.ErrClosed,
	"stale":       holdfast.ErrStale,
	"too short":   holdfast.ErrTTLTooShort,
	"held, too":   fmt.Errorf("%w: %w", context.Canceled, holdfast.ErrHeld),
}

// saysNothing checks that err is the error of a ctx that was cancelled because of cause, that
// its text has the cause, and that it matches no error about locks.
func saysNothing(t *testing.T, what string, cause, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), cause.Error()) {
		t.Errorf("%s: got error %v, want that of ctx, with its cause in the text", what, err)
	}
	isNoAnswer(t, what, err)
}

func isNoAnswer(t *testing.T, what string, err error) {
	t.Helper()
	for name, answer := range named {
		for e := answer; e != nil; e = errors.Unwrap(e) {
			if !errors.Is(e, context.Canceled) && errors.Is(err, e) {
				t.Errorf("%s: error %v matches %s, which only the store may say", what, err, name)
			}
		}
	}
	var held *holdfast.HeldError
	var lost *holdfast.LostError
	if errors.As(err, &held) || errors.As(err, &lost) {
		t.Errorf("%s: %v is a %T", what, err, err)
	}
}

// outsider is a store whose errors wrap the cause of ctx, as errors of net/http do. It
// applies each request, and then answers only if its ctx does not end within a second.
type outsider struct {
	*memlock.Store
	cause func(context.Context) error
	every time.Duration // how often it checks the ctx; the ctx of an attempt counts the checks
	hangs atomic.Bool
}

func (s *outsider) answer(ctx context.Context) error {
	if !s.hangs.Load() {
		return s.failed(ctx)
	}
	for range time.Second / s.every {
		if err := s.failed(ctx); err != nil {
			return err
		}
		time.Sleep(s.every)
	}
	return nil
}

func (s *outsider) failed(ctx context.Context) error {
	if err := s.cause(ctx); err != nil {
		return fmt.Errorf("outsider: %w", err)
	}
	return nil
}

func (s *outsider) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.Store.Acquire(context.Background(), q)
	if ended := s.answer(ctx); ended != nil {
		return driver.Grant{}, ended
	}
	return g, err
}

func (s *outsider) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	rs, err := s.Store.Renew(context.Background(), qs)
	if ended := s.answer(ctx); ended != nil {
		return nil, ended
	}
	return rs, err
}

func (s *outsider) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := s.failed(ctx); err != nil {
		return nil, err // without releasing anything
	}
	return s.Store.Release(ctx, qs)
}

func (s *outsider) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		if err := s.answer(ctx); err != nil {
			yield(driver.Status{}, err)
			return
		}
		s.Store.List(ctx, f)(yield)
	}
}

func (s *outsider) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return func(yield func(driver.Place, error) bool) {
		if err := s.answer(ctx); err != nil {
			yield(driver.Place{}, err)
			return
		}
		s.Store.Waiters(ctx, f)(yield)
	}
}

func (s *outsider) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	if err := s.answer(ctx); err != nil {
		return driver.SweepResult{}, err
	}
	return s.Store.Sweep(ctx, q)
}

// A caller's ctx ends because of another lock, before or during a call. Whatever the store
// returns then is not taken for the store's answer: a possible grant is cleaned up, and no
// hold is lost.
func TestCauseIsNoAnswer(t *testing.T) {
	ways := map[string]func(context.Context) error{
		"seldom": context.Cause, // it never asks for the channel
		"often":  context.Cause,
		"by Done": func(ctx context.Context) error {
			_ = ctx.Done()
			return context.Cause(ctx)
		},
		"of a copy": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return context.Cause(ctx)
		},
		"of a copy with values": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(context.WithValue(ctx, t, t), time.Hour)
			defer cancel()
			return context.Cause(ctx)
		},
	}
	for way, look := range ways {
		for name, cause := range named {
			inBubble(t, way+", "+name, func(t *testing.T) {
				s := &outsider{Store: memlock.New(nil), cause: look, every: time.Millisecond}
				if way == "seldom" {
					s.every = 100 * time.Millisecond
				}
				c := newClient(t, s, &holdfast.Options{NoSweep: true})
				d := newClient(t, s.Store, &holdfast.Options{NoSweep: true})
				own := lock(t, c, "own", &holdfast.LockOptions{LockID: "id"})

				dead, end := context.WithCancelCause(t.Context())
				short := lock(t, c, "short", nil)
				end(cause)
				if err := short.Unlock(dead); err != nil {
					t.Errorf("Unlock with a dead ctx: %v", err)
				}
				s.hangs.Store(true)
				for what, call := range map[string]func(context.Context) error{
					"Lock":    func(ctx context.Context) error { return second(c.Lock(ctx, "r", nil)) },
					"TryLock": func(ctx context.Context) error { return second(c.TryLock(ctx, "r", nil)) },
					"RLock":   func(ctx context.Context) error { return second(c.RLock(ctx, "r", nil)) },
					"under a lock": func(ctx context.Context) error {
						bound, cancel := own.Bind(ctx)
						defer cancel()
						return second(c.Lock(bound, "r", nil))
					},
					"Renew":        func(ctx context.Context) error { return own.Renew(ctx, 0) },
					"RenewID":      func(ctx context.Context) error { return second(c.Admin().RenewID(ctx, "id", time.Hour)) },
					"ReleaseID":    func(ctx context.Context) error { return second(c.Admin().ReleaseID(ctx, "id")) },
					"ForceRelease": func(ctx context.Context) error { return second(c.Admin().ForceRelease(ctx, "own", own.ID())) },
					"Holds":        func(ctx context.Context) error { return firstError(ctx, c) },
					"Waiters": func(ctx context.Context) error {
						for _, err := range c.Admin().Waiters(ctx, holdfast.Filter{}) {
							if err != nil {
								return err
							}
						}
						return nil
					},
					"Sweep": func(ctx context.Context) error { return second(c.Admin().Sweep(ctx)) },
				} {
					saysNothing(t, what+", too late", cause, call(dead))
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(300*time.Millisecond, func() { cancel(cause) })
					err := call(ctx)
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v, want that of ctx", what, err)
					}
					isNoAnswer(t, what, err)
					time.Sleep(time.Second) // time for a clean-up
					mustBeFree(t, s.Store, "r")
					alive(t, own)
				}
				s.hangs.Store(false)
				unlock(t, own)
				unlock(t, lock(t, d, "r", nil))
			})
		}
	}
}

// The error of a wait matches ErrHeld only if the store has refused the lock.
func TestCauseOfAWait(t *testing.T) {
	for name, cause := range named {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			c, d := newClient(t, store, nil), newClient(t, store, nil)
			lock(t, d, "r", nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			held := heldError(t, second(c.Lock(ctx, "r", nil)))
			if held.Resource != "r" || held.BySelf {
				t.Errorf("got %+v", held)
			}
			saysNothing(t, "the cause of the refusal", cause, held.Cause)
		})
	}
}

// The values of the caller's ctx reach the store, but its cause does not, whichever method
// the store calls.
func TestStoreSeesNoCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		calls := 0
		c := newClient(t, seeing{memlock.New(nil), func(op string, ctx context.Context) {
			calls++
			if ctx.Value(key{}) != "v" {
				t.Errorf("%s: the ctx lacks the caller's value", op)
			}
			if err := context.Cause(ctx); err != nil {
				t.Errorf("%s: the cause is %v", op, err)
			}
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 10*time.Second {
				t.Errorf("%s: the ctx has the deadline %v (%v)", op, deadline, ok)
			}
		}}, nil)
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
		h, err := c.Lock(ctx, "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel(holdfast.ErrHeld)
		if err := h.Unlock(ctx); err != nil || calls != 2 {
			t.Errorf("Unlock: %v; %d calls", err, calls)
		}
	})
}

// A hold's context is made when a caller asks for it. A caller that asks after the end of the
// hold gets a context that has ended with the same cause.
func TestContextAskedForLate(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error
		want error
	}{
		"unlocked": {func(ctx context.Context, _ *holdfast.Client, h *holdfast.Hold) error {
			return h.Unlock(ctx)
		}, holdfast.ErrReleased},
		"released by its lock ID": {func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error {
			_, err := c.Admin().ReleaseID(ctx, h.LockID())
			return err
		}, holdfast.ErrReleased},
		"released by force": {func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error {
			_, err := c.Admin().ForceRelease(ctx, h.Resource(), h.ID())
			return err
		}, holdfast.ErrForced},
		"expired": {func(context.Context, *holdfast.Client, *holdfast.Hold) error {
			time.Sleep(holdfast.DefaultTTL)
			return nil
		}, holdfast.ErrExpired},
		"closed": {func(_ context.Context, c *holdfast.Client, _ *holdfast.Hold) error {
			return c.Close()
		}, holdfast.ErrClosed},
	} {
		inBubble(t, name, func(t *testing.T) {
			type key struct{}
			acquiring, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			client := newClient(t, memlock.New(nil), nil)
			options := &holdfast.LockOptions{NoKeepAlive: true}
			early, err := client.Lock(acquiring, "early", options)
			if err != nil {
				t.Fatal(err)
			}
			late, err := client.Lock(acquiring, "late", options)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			before := early.Context()
			if before.Err() != nil {
				t.Fatalf("ended before its hold: %v", context.Cause(before))
			}
			for _, h := range []*holdfast.Hold{early, late} {
				if err := c.end(t.Context(), client, h); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			for _, ctx := range []context.Context{before, early.Context(), late.Context()} {
				if cause := context.Cause(ctx); ctx.Err() == nil || !errors.Is(cause, c.want) {
					t.Errorf("the cause is %v, want %v", cause, c.want)
				}
				if ctx.Value(key{}) != "value" {
					t.Error("the values of the acquire's ctx are gone")
				}
			}
		})
	}
}

// A process that was stopped beyond the deadline continues before its timer fires. Contexts
// that are obtained then have ended; contexts obtained earlier end soon after.
func TestContextAfterAStop(t *testing.T) {
	for name, ask := range map[string]func(h *holdfast.Hold) (context.Context, context.CancelFunc){
		"Bind":    func(h *holdfast.Hold) (context.Context, context.CancelFunc) { return h.Bind(context.Background()) },
		"Context": func(h *holdfast.Hold) (context.Context, context.CancelFunc) { return h.Context(), func() {} },
	} {
		for _, early := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s/%v", name, early), func(t *testing.T) {
				machine := newSleeper()
				client := newClient(t, memlock.New(nil), holdfast.WithClock(machine.clock, nil))
				h, err := client.Lock(t.Context(), "r", nil)
				if err != nil {
					t.Fatal(err)
				}
				var before context.Context // obtained earlier, as a worker has it
				if early {
					bound, cancel := h.Bind(t.Context())
					defer cancel()
					before = bound
				}
				machine.sleep(holdfast.DefaultTTL)
				after, cancel := ask(h)
				defer cancel()
				if cause := context.Cause(after); after.Err() == nil || !errors.Is(cause, holdfast.ErrExpired) {
					t.Errorf("the cause is %v, want %v", cause, holdfast.ErrExpired)
				}
				synctest.Wait()
				if early && !errors.Is(context.Cause(before), holdfast.ErrExpired) {
					t.Errorf("the cause of an earlier context is %v, want %v", context.Cause(before), holdfast.ErrExpired)
				}
				if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrExpired) {
					t.Errorf("Unlock: %v, want %v", err, holdfast.ErrExpired)
				}
			})
		}
	}
}
