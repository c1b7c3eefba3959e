package lock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/memlock"
)

// These tests are about time, faults and concurrent calls, in memory. Tests of documents
// and servers are in eslock/integration/dropin.

// bench is a store that a test can disturb, in a bubble.
type bench struct {
	*drivertest.FaultStore
	t *testing.T

	mu     sync.Mutex
	faults map[drivertest.Op]func(n int) drivertest.Fault
}

func inBubble(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, faults: make(map[drivertest.Op]func(int) drivertest.Fault)}
		b.FaultStore = drivertest.NewFaultStore(sparing{memlock.New(nil)}, func(c drivertest.Call) drivertest.Fault {
			b.mu.Lock()
			defer b.mu.Unlock()
			if fault := b.faults[c.Op]; fault != nil {
				return fault(c.N)
			}
			return drivertest.Fault{}
		})
		t.Cleanup(func() { _ = b.Close() })
		defer time.Sleep(patience) // until all locks are given back
		test(t, b)
	})
}

// sparing is a store in memory that implements eslock.Options.SpareRenewed.
type sparing struct{ *memlock.Store }

func (s sparing) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	q := qs[0] // no test releases two holds at a time
	for h, err := range s.List(ctx, driver.Filter{Resource: q.Resource, LockID: q.LockID}) {
		if err == nil && h.HoldID == q.HoldID && q.Token == 0 && !h.Renewed.IsZero() {
			return []driver.ReleaseResult{{}}, nil
		}
	}
	return s.Store.Release(ctx, qs)
}

// on disturbs all calls of op from now on, or the calls with the given numbers.
func (b *bench) on(op drivertest.Op, fault drivertest.Fault, numbers ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults[op] = func(n int) drivertest.Fault {
		if len(numbers) == 0 || slices.Contains(numbers, n) {
			return fault
		}
		return drivertest.Fault{}
	}
}

func (b *bench) heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.faults)
}

func (b *bench) lock(owner string) *Lock { return newLock(&store{Store: b}, "r").WithOwner(owner) }

// acquired returns a Lock that has the lock.
func (b *bench) acquired(owner string, ttl time.Duration) *Lock {
	b.t.Helper()
	l := b.lock(owner)
	b.must(l.Acquire(b.t.Context(), ttl))
	b.is(l, true, false)
	return l
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) is(l *Lock, acquired, released bool) {
	b.t.Helper()
	if a, r := l.IsAcquired(), l.IsReleased(); a != acquired || r != released {
		b.t.Errorf("after all: acquired %v, released %v; want %v, %v", a, r, acquired, released)
	}
}

// refused checks that the error is the one that programs compare with.
func (b *bench) refused(err error) {
	b.t.Helper()
	if err == nil || err.Error() != "lock held by other client" || !errors.Is(err, driver.ErrHeld) {
		b.t.Errorf("error %v, want ErrHeld", err)
	}
}

// holder returns the lock ID of the holder in the store, or "".
func (b *bench) holder() string {
	for s, err := range b.List(b.t.Context(), driver.Filter{Resource: "r"}) {
		b.must(err)
		return s.LockID
	}
	return ""
}

func TestSafeDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		began := time.Now()
		l, other := b.acquired("me", 16*time.Second), b.lock("other")
		if !l.Acquired.Equal(began) || !l.Expires.Equal(began.Add(16*time.Second)) {
			t.Errorf("acquired %v, expires %v", l.Acquired, l.Expires)
		}
		time.Sleep(15*time.Second - 1)
		b.is(l, true, false)
		time.Sleep(time.Nanosecond)
		b.is(l, false, false)
		b.refused(other.Acquire(t.Context(), time.Second))
		time.Sleep(time.Second)
		b.is(l, false, true)
		b.must(other.Acquire(t.Context(), time.Second))
		b.refused(l.Acquire(t.Context(), time.Second))
		if !l.Expires.Equal(began.Add(16 * time.Second)) {
			t.Errorf("an Acquire that failed changed Expires to %v", l.Expires)
		}
	})
}

func TestAcquireAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 16*time.Second)
		first := l.Acquired
		time.Sleep(10 * time.Second)
		b.must(l.Acquire(t.Context(), 16*time.Second))
		if !l.Acquired.Equal(first) || !l.Expires.Equal(time.Now().Add(16*time.Second)) {
			t.Errorf("extended: acquired %v, expires %v", l.Acquired, l.Expires)
		}
		if n := b.Calls(drivertest.Acquire); n != 1 {
			t.Errorf("%d acquires", n)
		}

		// A shorter TTL does not shorten the lock.
		b.must(l.Acquire(t.Context(), time.Second))
		if !l.Expires.Equal(time.Now().Add(16 * time.Second)) {
			t.Errorf("expires %v", l.Expires)
		}
		time.Sleep(10 * time.Second)
		b.is(l, true, false)

		// Another Lock of the owner extends it.
		peer := b.lock("me")
		b.must(peer.Acquire(t.Context(), time.Hour))
		b.is(peer, true, false)
		time.Sleep(time.Minute)
		b.refused(b.lock("other").Acquire(t.Context(), time.Second))
		b.must(l.Acquire(t.Context(), time.Second))
		if want := time.Now().Add(59 * time.Minute); !l.Expires.Equal(want) {
			t.Errorf("expires %v, want %v, like the other Lock", l.Expires, want)
		}
		b.must(l.MustRelease())
		if b.holder() != "" {
			t.Error("not released for all")
		}
	})
}

// A lost lock can be acquired again.
func TestAcquireAfterLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 16*time.Second)
		began := time.Now()
		time.Sleep(time.Second)
		b.force("me")
		b.must(l.Acquire(t.Context(), 16*time.Second))
		b.is(l, true, false)
		if l.Acquired.Equal(began) || b.holder() != "me" {
			t.Errorf("acquired %v; held by %q", l.Acquired, b.holder())
		}
		time.Sleep(time.Minute)
		b.is(l, false, true)
		b.must(l.Acquire(t.Context(), 16*time.Second))
		b.must(l.Release())
		b.is(l, false, true)
		b.must(l.Acquire(t.Context(), 16*time.Second))
		b.is(l, true, false)
	})
}

// force releases the hold of the lock ID without the Lock's knowledge.
func (b *bench) force(lockID string) {
	b.t.Helper()
	rs, err := b.Release(b.t.Context(), []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: "r", LockID: lockID}}})
	if err != nil || !rs[0].Found {
		b.t.Fatal(rs, err)
	}
}

// Between the loss of the hold and the next try, other owners may acquire the lock any
// number of times.
func TestAcquireIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.acquired("me", time.Hour)
		b.on(drivertest.Renew, drivertest.Fault{LoseRequest: true, Err: driver.ErrLost})
		if err := b.lock("me").Acquire(t.Context(), time.Hour); !errors.Is(err, driver.ErrLost) || b.Calls(drivertest.Renew) != maxTries {
			t.Errorf("error %v after %d tries", err, b.Calls(drivertest.Renew))
		}
	})
}

// A Client of Holdfast with the same lock ID, but with a shared hold or one that is
// released later, excludes the Lock like any other.
func TestOtherHoldsUnderOwnName(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		c := holdfast.New(b, nil)
		defer c.Close()
		h, err := c.RLock(t.Context(), "r", &holdfast.LockOptions{LockID: "me"})
		b.must(err)
		b.refused(b.lock("me").Acquire(t.Context(), time.Second))
		b.must(h.Unlock(t.Context()))
		h, err = c.Lock(t.Context(), "r", &holdfast.LockOptions{LockID: "me"})
		b.must(err)
		b.must(b.lock("me").Acquire(t.Context(), time.Second))
		b.must(h.UnlockAfter(t.Context(), 10*time.Second))
		b.refused(b.lock("me").Acquire(t.Context(), time.Second))
		time.Sleep(10 * time.Second)
		b.must(b.lock("me").Acquire(t.Context(), time.Second))
	})
}

// An answer that comes when almost no time is left counts as too late.
func TestTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		answer := make(chan struct{})
		time.AfterFunc(950*time.Millisecond, func() { close(answer) })
		b.on(drivertest.Acquire, drivertest.Fault{HoldReply: answer})
		l := b.lock("me")
		if err := l.Acquire(t.Context(), time.Second); !errors.Is(err, holdfast.ErrTTLTooShort) {
			t.Errorf("error %v", err)
		}
		b.is(l, false, false)
	})
}

// Even with the shortest TTLs the Lock is held for some time.
func TestShortTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		for _, ttl := range []time.Duration{time.Millisecond, 3*time.Millisecond + 999, 10 * time.Millisecond} {
			l := b.acquired("me", ttl)
			b.must(l.KeepAlive(t.Context(), ttl.Truncate(time.Millisecond)-1))
			time.Sleep(time.Second)
			b.is(l, true, false)
			b.must(l.MustRelease())
		}
	})
}

func TestInvalid(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		ctx := t.Context()
		dead, cancel := context.WithCancel(ctx)
		cancel()
		named := func(id, owner string) *Lock { return newLock(&store{Store: b}, id).WithOwner(owner) }
		long := strings.Repeat("n", 1025)
		errs := map[string]error{
			"TTL 0":          b.lock("me").Acquire(ctx, 0),
			"TTL of a ns":    b.lock("me").Acquire(ctx, time.Millisecond-1),
			"TTL negative":   b.lock("me").Acquire(ctx, -time.Second),
			"TTL too long":   b.lock("me").Acquire(ctx, driver.MaxTTL+1),
			"TTL of Forever": b.lock("me").Acquire(ctx, driver.Forever),
			"nil client":     NewLock(nil, "r").Acquire(ctx, time.Second),
			"nil pointer":    NewLock((*bothNil)(nil), "r").Acquire(ctx, time.Second),
			"nil, Release":   NewLock(nil, "r").Release(),
			"not made":       new(Lock).Acquire(ctx, time.Second),
			"not made, too":  new(Lock).WithOwner("me").MustRelease(),
		}
		for what, name := range map[string]string{"empty": "", "too long": long, "NUL": "a\x00", "no UTF-8": "a\xff"} {
			errs["ID "+what] = named(name, "me").Acquire(ctx, time.Second)
			errs["ID "+what+", Release"] = named(name, "me").Release()
			errs["owner "+what] = named("r", name).Acquire(ctx, time.Second)
			errs["owner "+what+", MustRelease"] = named("r", name).MustRelease()
		}
		for what, err := range errs {
			if !errors.Is(err, driver.ErrInvalid) || len(err.Error()) > 300 && !strings.Contains(what, "long") {
				t.Errorf("%s: error %v, want ErrInvalid", what, err)
			}
		}
		if err := b.lock("me").Acquire(dead, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("dead ctx: error %v", err)
		}
		if b.Calls(drivertest.Acquire)+b.Calls(drivertest.Release)+b.Calls(drivertest.List) != 0 {
			t.Error("something was sent")
		}
		if l := new(Lock); l.IsAcquired() || !l.IsReleased() {
			t.Error("a zero Lock is held")
		}
	})
}

// bothNil is a client with a method on its pointer, like the official clients.
type bothNil struct{ eslock.Performer }

// A store that needs preparation is prepared once, and again when the index is missing.
func TestPrepared(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p := &unprepared{Store: b}
		l := newLock(&store{Store: p}, "r")
		b.must(l.Release())
		b.must(l.Acquire(t.Context(), time.Hour))
		b.must(l.Acquire(t.Context(), time.Hour))
		p.ready = false // the index was deleted
		b.must(l.Acquire(t.Context(), time.Hour))
		if p.inits != 2 {
			t.Errorf("prepared %d times", p.inits)
		}
		p.ready, p.broken = false, true
		if err := l.Acquire(t.Context(), time.Hour); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "no room") {
			t.Errorf("error %v; want the reason why it could not be prepared", err)
		}
	})
}

// A user without the right to look at the index can still lock, with the error texts of
// any server. Errors with another cause may be over when Acquire is called again.
func TestWithoutRightToLook(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		p := &unprepared{Store: b, ready: true, answers: http.StatusForbidden}
		l := newLock(&store{Store: p}, "r")
		b.must(l.Acquire(t.Context(), time.Hour))
		b.must(l.MustRelease())
		p.answers = http.StatusUnauthorized
		if err := l.Acquire(t.Context(), time.Hour); !errors.Is(err, status(p.answers)) || errors.Is(err, driver.ErrUnusable) {
			t.Errorf("error %v, want that of the server", err)
		}
	})
}

// status is the error of an answer with this status.
type status int

func (s status) Error() string   { return fmt.Sprintf("status %d", int(s)) }
func (s status) HTTPStatus() int { return int(s) }

// unprepared is unusable before Init.
type unprepared struct {
	driver.Store
	ready, broken bool
	answers       int // the status of the server's answer to Init; 0: success
	inits         int
}

func (u *unprepared) Init(context.Context) error {
	u.inits++
	if u.answers != 0 {
		return status(u.answers)
	}
	if u.broken {
		return errors.Join(driver.ErrUnusable, errors.New("no room"))
	}
	u.ready = true
	return nil
}

func (u *unprepared) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if !u.ready {
		return driver.Grant{}, driver.ErrUnusable
	}
	return u.Store.Acquire(ctx, q)
}

func (u *unprepared) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if !u.ready {
		return nil, driver.ErrUnusable
	}
	return u.Store.Renew(ctx, qs)
}

func (u *unprepared) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	if !u.ready {
		return func(yield func(driver.Status, error) bool) { yield(driver.Status{}, driver.ErrUnusable) }
	}
	return u.Store.List(ctx, f)
}
