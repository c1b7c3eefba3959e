package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

func waitersFor(t *testing.T, c *holdfast.Client, resource string) (lockIDs []string) {
	t.Helper()
	for p, err := range c.Admin().Waiters(t.Context(), holdfast.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		lockIDs = append(lockIDs, p.LockID)
	}
	return lockIDs
}

func mustWait(t *testing.T, c *holdfast.Client, resource string, lockIDs ...string) {
	t.Helper()
	if got := waitersFor(t, c, resource); !slices.Equal(got, lockIDs) {
		t.Errorf("%q wait for %q, want %q", got, resource, lockIDs)
	}
}

func as(lockID string) *holdfast.LockOptions { return &holdfast.LockOptions{LockID: lockID} }

func fairly(lockID string) *holdfast.LockOptions {
	return &holdfast.LockOptions{LockID: lockID, Fair: true}
}

// A caller that has waited for a second has a place and keeps it. The next waiter of the
// Client inherits it. The holder learns that its lock is wanted.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		holder, other := newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, holder, "r", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := locking(ctx, other, "r", as("first"))
		time.Sleep(10 * time.Millisecond)
		second := locking(t.Context(), other, "r", as("second"))
		time.Sleep(900 * time.Millisecond)
		mustWait(t, other, "r")
		time.Sleep(200 * time.Millisecond)
		mustWait(t, other, "r", "first")
		select {
		case <-h.Wanted():
			t.Error("wanted before any renewal")
		default:
		}
		for range 60 {
			time.Sleep(time.Second)
			mustWait(t, holder, "r", "first")
		}
		<-h.Wanted()
		id := place(t, other, "r").ID
		cancel()
		<-first
		time.Sleep(3 * time.Second)
		mustWait(t, other, "r", "second")
		if now := place(t, other, "r").ID; now != id {
			t.Error("the next waiter of the Client has another place")
		}
		unlock(t, h)
		r := <-second
		if r.err != nil {
			t.Fatal(r.err)
		}
		mustWait(t, other, "r")
		if again := lock(t, holder, "s", nil); isClosed(again.Wanted()) {
			t.Error("nobody wants it")
		}
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func place(t *testing.T, c *holdfast.Client, resource string) holdfast.Place {
	t.Helper()
	return first(t, c.Admin().Waiters(t.Context(), holdfast.Filter{Resource: resource}))
}

// A waiter that gives up leaves its place at once.
func TestPlaceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		ctx, cancel := context.WithCancel(t.Context())
		waits := locking(ctx, newClient(t, store, nil), "r", fairly("w"))
		synctest.Wait()
		mustWait(t, c, "r", "w")
		_, err := c.TryLock(t.Context(), "r", nil)
		if held := heldError(t, err); held.Waiters != 1 || held.Position != driver.NoPlace || len(held.Ahead) != 1 || held.Ahead[0].LockID != "w" {
			t.Errorf("the refusal is %+v", held)
		}
		cancel()
		if r := <-waits; !errors.Is(r.err, context.Canceled) {
			t.Errorf("error %v", r.err)
		}
		synctest.Wait()
		mustWait(t, c, "r")
		unlock(t, h)
	})
}

// A fair waiter is served after at most one other, however many others keep trying.
func TestFairBesideTryLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const held = 50 * time.Millisecond
		store := memlock.New(nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		grants := 0
		for range 8 {
			c := newClient(t, store, nil)
			all.Go(func() {
				for ctx.Err() == nil {
					if h, err := c.TryLock(ctx, "r", nil); err == nil {
						grants++ // one goroutine at a time holds it
						time.Sleep(held)
						unlock(t, h)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		fair := newClient(t, store, nil)
		for range 30 {
			time.Sleep(10 * held)
			began := time.Now()
			h := lock(t, fair, "r", &holdfast.LockOptions{Fair: true})
			if waited := time.Since(began); waited > 2*held {
				t.Errorf("served after %v", waited)
			}
			unlock(t, h)
		}
		cancel()
		all.Wait()
		if grants < 100 {
			t.Errorf("the others were granted the lock %d times", grants)
		}
	})
}

// Fair waiters of many Clients are served in the order of their arrival, and TryLock does not
// overtake them.
func TestFairOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		const n = 20
		var order []int
		var all sync.WaitGroup
		for i := range n {
			waiter := newClient(t, store, nil)
			all.Go(func() {
				h, err := waiter.Lock(t.Context(), "r", &holdfast.LockOptions{Fair: true})
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // one goroutine at a time holds it
				time.Sleep(100 * time.Millisecond)
				unlock(t, h)
			})
			synctest.Wait()
		}
		unlock(t, h)
		for range 15 {
			_, err := c.TryLock(t.Context(), "r", nil)
			mustBeHeld(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		if !slices.IsSorted(order) || len(order) != n {
			t.Errorf("served in the order %v", order)
		}
	})
}

// Each waiter gets its own answer: only the one with the place has a position.
func TestOnlyThePlaceHasPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "r", nil)
		first := locking(t.Context(), newClient(t, store, nil), "r", fairly("first"))
		synctest.Wait()
		c := newClient(t, store, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		placed := locking(ctx, c, "r", fairly(""))
		synctest.Wait()
		behind := locking(ctx, c, "r", fairly(""))
		a, b := heldError(t, (<-placed).err), heldError(t, (<-behind).err)
		if a.Position != 1 || b.Position != driver.NoPlace {
			t.Errorf("the waiters have positions %d and %d", a.Position, b.Position)
		}
		if len(a.Ahead) != 1 || len(b.Ahead) != 1 || &a.Ahead[0] == &b.Ahead[0] {
			t.Errorf("ahead: %v and %v", a.Ahead, b.Ahead)
		}
		unlock(t, h)
		unlock(t, (<-first).hold)
	})
}

// unwritten is a store that now and then refuses without writing the place.
type unwritten struct {
	driver.Store
	asked int
}

func (f *unwritten) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	f.asked++
	place := q.Place
	if f.asked%2 == 0 {
		q.Place = driver.PlaceID{}
	}
	g, err := f.Store.Acquire(ctx, q)
	var held *holdfast.HeldError
	if errors.As(err, &held) && q.Place != place {
		held.Position = driver.NoPlace
	}
	return g, err
}

func (f *unwritten) Waiters(ctx context.Context, filter holdfast.Filter) iter.Seq2[holdfast.Place, error] {
	return f.Store.(driver.Queue).Waiters(ctx, filter)
}

// A waiter whose place could not be written asks again before its place ends, also if others
// are ahead of it.
func TestPlaceNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := holdfast.New(store, nil)
		h, err := c.Lock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				h, err := holdfast.New(&unwritten{Store: store, asked: i}, nil).Lock(t.Context(), "r", &holdfast.LockOptions{Fair: true, LockID: fmt.Sprint(i)})
				if err == nil {
					err = h.Unlock(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Second)
		order := func() (ids []string) {
			for p, err := range c.Admin().Waiters(t.Context(), holdfast.Filter{}) {
				if err != nil {
					t.Error(err)
				}
				ids = append(ids, p.LockID)
			}
			return ids
		}
		first := order()
		if len(first) != 3 {
			t.Errorf("the waiters are %q", first)
		}
		for range 300 {
			time.Sleep(time.Second)
			if now := order(); !slices.Equal(now, first) {
				t.Errorf("the waiters are %q, before they were %q", now, first)
				break
			}
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		all.Wait()
	})
}

// hanging returns a store that can hold an acquire up until arrive is closed. hang waits for
// the next acquire and returns when it is held up.
func hanging(t *testing.T, store *memlock.Store) (f *drivertest.FaultStore, hang func(), arrive chan struct{}) {
	t.Helper()
	var armed atomic.Bool
	arrive = make(chan struct{})
	f = faulty(t, store, func(c drivertest.Call) drivertest.Fault {
		if c.Op == drivertest.Acquire && armed.CompareAndSwap(true, false) {
			return drivertest.Fault{HoldRequest: arrive}
		}
		return drivertest.Fault{}
	})
	return f, func() {
		armed.Store(true)
		for armed.Load() {
			time.Sleep(time.Millisecond)
		}
	}, arrive
}

// One request without an answer does not cost a fair waiter its place.
func TestHungRequestKeepsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f, hang, arrive := hanging(t, store)
		holder := newClient(t, store, nil)
		h := lock(t, holder, "r", nil)
		first := locking(t.Context(), newClient(t, f, nil), "r", fairly("first"))
		time.Sleep(time.Second)
		second := locking(t.Context(), newClient(t, store, nil), "r", fairly("second"))
		time.Sleep(10 * time.Second)
		hang()
		for range 15 {
			time.Sleep(time.Second)
			mustWait(t, holder, "r", "first", "second")
		}
		unlock(t, h)
		for _, next := range []<-chan result{first, second} {
			unlock(t, granted(t, next))
		}
		close(arrive)
	})
}

// An attempt that arrives after its waiter was granted the lock, and has released it, takes a
// place. The place is cleaned up.
func TestLateAttemptLeavesNoPlace(t *testing.T) {
	for name, granted := range map[string]bool{"granted": true, "given up": false} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			f, hang, arrive := hanging(t, store)
			holder := newClient(t, store, nil)
			h := lock(t, holder, "r", nil)
			ctx, cancel := context.WithCancel(t.Context())
			w := locking(ctx, newClient(t, f, nil), "r", fairly("late"))
			time.Sleep(3 * time.Second)
			hang()
			if granted {
				time.Sleep(3 * time.Second) // until another attempt is made
				unlock(t, h)
				unlock(t, (<-w).hold)
				h = lock(t, holder, "r", nil)
			}
			cancel()
			if !granted {
				<-w
			}
			synctest.Wait()
			close(arrive)
			synctest.Wait()
			time.Sleep(time.Second)
			mustWait(t, holder, "r")
			unlock(t, h)
		})
	}
}

// A waiter that has stepped aside asks with the fair place of its line, and without it again
// when another waiter has taken it over. The first attempt arrives late, and its place is
// cleaned up, also if the place was dropped before the attempt was given up.
func TestLateAttemptWithALentPlace(t *testing.T) {
	for name, dropped := range map[string]bool{"given up": false, "dropped": true} {
		inBubble(t, name, func(t *testing.T) {
			store, arrive, asked := memlock.New(nil), make(chan struct{}), make(chan struct{})
			var hangs, lost atomic.Bool
			f := faulty(t, store, func(c drivertest.Call) (fault drivertest.Fault) {
				switch own := c.Op == drivertest.Acquire && c.Refs[0].LockID == "own"; {
				case own && hangs.CompareAndSwap(true, false):
					lost.Store(dropped)
					close(asked)
					fault.HoldRequest, fault.LoseReply = arrive, true
				case own && lost.Load():
					fault.LoseRequest = true
				}
				return fault
			})
			c, other := newClient(t, f, nil), newClient(t, store, nil)
			h := tryLock(t, other, "r", &holdfast.LockOptions{LockID: "own"})
			ctx, cancel := context.WithCancel(t.Context())
			aside := locking(ctx, c, "r", &holdfast.LockOptions{LockID: "own", Fair: true})
			time.Sleep(time.Second)
			hangs.Store(true)
			<-asked
			next := locking(t.Context(), c, "r", &holdfast.LockOptions{Fair: true})
			giveUp := func() {
				cancel()
				<-aside
			}
			if !dropped {
				time.Sleep(500 * time.Millisecond) // the first asks again
				giveUp()
			}
			g, _ := handOver(t, h, next)
			unlock(t, g)
			lost.Store(false)
			h = tryLock(t, other, "r", nil)
			if dropped {
				time.Sleep(4 * time.Second) // the first asks again, and is refused
				giveUp()
			}
			close(arrive)
			time.Sleep(2 * time.Second)
			unlock(t, h)
			unlock(t, tryLock(t, other, "r", nil))
		})
	}
}

// lendingStore lets the next acquire of "own" with a place wait. Then the hold in the way goes,
// the acquire is granted, and its answer gets lost. Later acquires are slow.
type lendingStore struct {
	driver.Store
	armed, slow atomic.Bool
	asked, goOn chan struct{}
	inTheWay    driver.HoldRef
}

func (s *lendingStore) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	switch {
	case q.LockID == "own" && !q.Place.IsZero() && s.armed.CompareAndSwap(true, false):
		close(s.asked)
		<-s.goOn
		_, err := s.Release(ctx, []driver.ReleaseRequest{{HoldRef: s.inTheWay}})
		if err == nil {
			_, err = s.Store.Acquire(ctx, q)
		}
		return driver.Grant{}, errors.Join(err, drivertest.ErrFault)
	case s.slow.Load():
		time.Sleep(200 * time.Millisecond)
	}
	return s.Store.Acquire(ctx, q)
}

// The waiter that took the place over keeps it when the first one, which was granted by its
// late attempt and learns of that by another one, unlocks.
func TestLentPlaceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lendingStore{Store: memlock.New(nil), asked: make(chan struct{}), goOn: make(chan struct{})}
		s.inTheWay = driver.HoldRef{Resource: "r", LockID: "own", HoldID: driver.NewHoldID()}
		_, err := s.Store.Acquire(t.Context(), driver.AcquireRequest{Resource: "r", LockID: "own", HoldID: s.inTheWay.HoldID, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		c, other := newClient(t, s, nil), newClient(t, s.Store, nil)
		own := locking(t.Context(), c, "r", &holdfast.LockOptions{LockID: "own", Fair: true})
		time.Sleep(time.Second)
		s.armed.Store(true)
		<-s.asked
		next := locking(t.Context(), c, "r", &holdfast.LockOptions{Fair: true})
		synctest.Wait()
		close(s.goOn)
		mine := granted(t, own)
		time.Sleep(time.Second)
		rival := locking(t.Context(), other, "r", &holdfast.LockOptions{Fair: true})
		time.Sleep(time.Second)
		s.slow.Store(true)
		unlock(t, mine)
		select {
		case <-rival:
			t.Fatal("the rival, who came later, was served first")
		case n := <-next:
			unlock(t, n.hold)
		}
		unlock(t, granted(t, rival))
	})
}

// One lost request costs no place, whether it is that of a Lock that has just begun or of one
// that inherits the place.
func TestLostRequestCostsNoPlace(t *testing.T) {
	// lost loses the n-th acquire of a lock ID, or its reply, once it is armed.
	lost := func(t *testing.T, store *memlock.Store, lockID string, n int64, reply bool) (f *drivertest.FaultStore, arm func()) {
		var left atomic.Int64
		f = faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			switch {
			case c.Op != drivertest.Acquire || c.Refs[0].LockID != lockID || left.Add(-1) != 0:
				return drivertest.Fault{}
			case reply:
				return drivertest.Fault{HoldReply: after(time.Minute)}
			}
			return drivertest.Fault{HoldRequest: after(time.Minute)}
		})
		return f, func() { left.Store(n) }
	}
	inTurn := func(t *testing.T, h *holdfast.Hold, waits ...<-chan result) {
		for i, w := range waits {
			var idle time.Duration
			if h, idle = handOver(t, h, w); idle > 1500*time.Millisecond {
				t.Errorf("waiter %d had the free resource after %v", i, idle)
			}
		}
		unlock(t, h)
	}
	for _, reply := range []bool{false, true} {
		for n := range int64(4) {
			for _, held := range []time.Duration{2 * time.Second, 4 * time.Second, 30 * time.Second} {
				inBubble(t, fmt.Sprintf("reply %v, acquire %d, held for %v", reply, n, held), func(t *testing.T) {
					store := memlock.New(nil)
					h := lock(t, newClient(t, store, nil), "r", nil)
					f, arm := lost(t, store, "first", n+1, reply)
					arm()
					first := locking(t.Context(), newClient(t, f, nil), "r", fairly("first"))
					if n == 0 && !reply { // then it has no place yet
						time.Sleep(3 * time.Second)
					}
					time.Sleep(500 * time.Millisecond)
					second := locking(t.Context(), newClient(t, store, nil), "r", fairly("second"))
					time.Sleep(held)
					inTurn(t, h, first, second)
				})
			}
		}
		for at := 5 * time.Second; at < 12*time.Second; at += 610 * time.Millisecond {
			inBubble(t, fmt.Sprintf("reply %v, inherited after %v", reply, at), func(t *testing.T) {
				store := memlock.New(nil)
				h := lock(t, newClient(t, store, nil), "r", nil)
				f, arm := lost(t, store, "heir", 1, reply)
				c := newClient(t, f, nil)
				ctx, cancel := context.WithCancel(t.Context())
				head := locking(ctx, c, "r", fairly("head"))
				time.Sleep(time.Second)
				heir := locking(t.Context(), c, "r", fairly("heir"))
				time.Sleep(time.Second)
				next := locking(t.Context(), newClient(t, store, nil), "r", fairly("next"))
				time.Sleep(at)
				arm()
				cancel()
				<-head
				time.Sleep(20 * time.Second)
				inTurn(t, h, heir, next)
			})
		}
	}
}

// A late attempt takes its place again, while its Lock waits or after it has ended. The
// clean-up gives the place up within about a second, however short the TTL is and however
// long ago the attempt was abandoned.
func TestLateAttemptOfLockThatGoesOn(t *testing.T) {
	for _, ttl := range []time.Duration{500 * time.Millisecond, 5 * time.Second, 30 * time.Second} {
		for wait := time.Duration(0); wait < 8*time.Second; wait += 1900 * time.Millisecond {
			for late := wait + 300*time.Millisecond; late < 9*time.Second; late += 1300 * time.Millisecond {
				inBubble(t, fmt.Sprint(ttl, wait, late), func(t *testing.T) {
					store := memlock.New(nil)
					f, hang, arrive := hanging(t, store)
					h := lock(t, newClient(t, store, nil), "r", nil)
					ctx, cancel := context.WithCancel(t.Context())
					o := fairly("late")
					o.TTL = ttl
					w := locking(ctx, newClient(t, f, nil), "r", o)
					time.Sleep(3 * time.Second)
					hang()
					sent := time.Now()
					time.Sleep(wait)
					cancel()
					<-w
					time.Sleep(late - time.Since(sent))
					close(arrive)
					time.Sleep(time.Millisecond)
					next := locking(t.Context(), newClient(t, store, nil), "r", nil)
					time.Sleep(time.Millisecond)
					h, idle := handOver(t, h, next)
					if idle > 1500*time.Millisecond {
						t.Errorf("the resource was free for %v", idle)
					}
					unlock(t, h)
				})
			}
		}
	}
}

// A clean-up sends releases often while an attempt may still take a place, and seldom after
// that.
func TestCleanUpOfPlaceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f, hang, arrive := hanging(t, store)
		lock(t, newClient(t, store, nil), "r", nil)
		ctx, cancel := context.WithCancel(t.Context())
		w := locking(ctx, newClient(t, f, nil), "r", &holdfast.LockOptions{Fair: true, TTL: time.Hour, TakeoverDelay: time.Hour})
		time.Sleep(3 * time.Second)
		hang()
		cancel()
		<-w
		time.Sleep(15 * time.Minute)
		if n := f.Calls(drivertest.Release); n > 90 {
			t.Errorf("the clean-up sent %d releases", n)
		}
		close(arrive)
	})
}

// A store may need longer for an answer than a waiter leaves between two requests for its
// place.
func TestFairOnSlowStore(t *testing.T) {
	for _, latency := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second} {
		inBubble(t, latency.String(), func(t *testing.T) {
			store := memlock.New(nil)
			slow := faulty(t, store, delayed(drivertest.Acquire, latency))
			free := lock(t, newClient(t, slow, nil), "free", &holdfast.LockOptions{Fair: true})
			unlock(t, free)
			h := lock(t, newClient(t, store, nil), "r", nil)
			time.AfterFunc(20*time.Second, func() { _ = h.Unlock(context.Background()) })
			began := time.Now()
			r := <-locking(t.Context(), newClient(t, slow, nil), "r", fairly("w"))
			if took := time.Since(began); r.err != nil || took > 20*time.Second+2*latency {
				t.Fatalf("after %v: %v", took, r.err)
			}
			unlock(t, r.hold)
		})
	}
}

// An attempt that arrives after its Lock has ended blocks a free resource for about a second,
// however short its TTL is.
func TestLateAttemptOfShortTTL(t *testing.T) {
	for late := 100 * time.Millisecond; late < 9*time.Second; late += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f, hang, arrive := hanging(t, store)
			h := lock(t, newClient(t, store, nil), "r", nil)
			ctx, cancel := context.WithCancel(t.Context())
			o := fairly("late")
			o.TTL = time.Second
			w := locking(ctx, newClient(t, f, nil), "r", o)
			time.Sleep(3 * time.Second)
			hang()
			cancel()
			<-w
			time.Sleep(late)
			close(arrive)
			time.Sleep(time.Millisecond)
			next := locking(t.Context(), newClient(t, store, nil), "r", nil)
			time.Sleep(time.Millisecond)
			h, idle := handOver(t, h, next)
			if idle > 1500*time.Millisecond {
				t.Errorf("arrived after %v: the resource was free for %v", late, idle)
			}
			unlock(t, h)
		})
	}
}

// The first waiters beyond a full queue do not leave the resource idle for long.
func TestFullQueueEmptiesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "r", nil)
		ctx, cancel := context.WithCancel(t.Context())
		for range 64 {
			locking(ctx, newClient(t, store, nil), "r", fairly(""))
		}
		time.Sleep(time.Second)
		last := locking(t.Context(), newClient(t, store, nil), "r", fairly("last"))
		time.Sleep(100 * time.Millisecond)
		cancel()
		time.Sleep(time.Millisecond)
		h, idle := handOver(t, h, last)
		if idle > 3*time.Second {
			t.Errorf("the resource was free for %v", idle)
		}
		unlock(t, h)
	})
}

// Waiters beyond a full queue ask seldom, fair or not.
func TestFullQueueIsQuiet(t *testing.T) {
	for name, fair := range map[string]bool{"fair": true, "plain": false} {
		inBubble(t, name, func(t *testing.T) {
			const clients = 200
			store := memlock.New(nil)
			f := faulty(t, store)
			h := lock(t, newClient(t, store, nil), "r", nil)
			ctx, cancel := context.WithCancel(t.Context())
			for range clients {
				c := newClient(t, f, nil)
				go func() { _, _ = c.Lock(ctx, "r", &holdfast.LockOptions{Fair: fair}) }()
			}
			time.Sleep(30 * time.Second)
			before := f.Calls(drivertest.Acquire)
			time.Sleep(100 * time.Second)
			if perSecond := float64(f.Calls(drivertest.Acquire)-before) / 100; perSecond > 64/2+clients/5 {
				t.Errorf("%v acquires per second", perSecond)
			}
			cancel()
			synctest.Wait()
			unlock(t, h)
		})
	}
}

// A holder learns of waiters through renewals: also renewals of a hold without an end, and calls
// of Renew if the Client does not renew the hold.
func TestWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		a, b := newClient(t, store, nil), newClient(t, store, nil)
		endless := lock(t, a, "endless", &holdfast.LockOptions{TTL: holdfast.Forever})
		left := lock(t, a, "left", &holdfast.LockOptions{NoKeepAlive: true, TTL: time.Hour})
		waits := []<-chan result{
			locking(t.Context(), b, "endless", fairly("w")), locking(t.Context(), b, "left", fairly("w")),
		}
		began := time.Now()
		<-endless.Wanted()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the holder without an end learnt of the waiter after %v", took)
		}
		time.Sleep(time.Minute)
		if isClosed(left.Wanted()) {
			t.Error("wanted, but nothing renewed it")
		}
		if err := left.Renew(t.Context(), time.Hour); err != nil || !isClosed(left.Wanted()) {
			t.Errorf("not wanted after a renewal: %v", err)
		}
		unlock(t, endless)
		unlock(t, left)
		for _, w := range waits {
			granted(t, w)
		}
	})
}
