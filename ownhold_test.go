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
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// A caller that asks with the holder's lock ID would wait for itself.
func TestS25a_own_hold(t *testing.T) {
	own := &holdfast.LockOptions{LockID: "own"}
	mustBeTold := func(t *testing.T, err error, began time.Time) {
		t.Helper()
		if held := heldError(t, err); !held.BySelf || held.Cause != nil {
			t.Errorf("got %+v, want BySelf", held)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("told after %v", waited)
		}
	}
	inBubble(t, "same Client", func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		h := lock(t, c, "r", own)
		began := time.Now()
		_, err := c.Lock(t.Context(), "r", own)
		mustBeTold(t, err, began)
		_, err = c.RLock(t.Context(), "r", own)
		mustBeTold(t, err, began)
		_, err = c.TryLock(t.Context(), "r", own)
		mustBeTold(t, err, began)
		alive(t, h)
		mustBeHeldBy(t, store, h)
	})
	inBubble(t, "same Client, others in line", func(t *testing.T) {
		c := newClient(t, memlock.New(nil), nil)
		h := lock(t, c, "r", own)
		var others []<-chan result
		for range 3 {
			others = append(others, locking(t.Context(), c, "r", nil))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		began := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Lock(short, "r", own)
		mustBeTold(t, err, began)
		if held := heldError(t, err); len(held.Holders) != 1 || held.Holders[0].HoldID != h.ID() {
			t.Errorf("the refusal has the holders %+v", held.Holders)
		}
		unlock(t, h)
		for _, o := range others {
			r := <-o
			if r.err != nil || r.at != began {
				t.Errorf("%+v", r)
			}
			unlock(t, r.hold)
		}
	})
	// A process was killed, and the next one uses the same lock ID. If it took the hold for
	// its own, it would fail, or work without the lock.
	for name, inLine := range map[string]bool{"predecessor": false, "predecessor, others in line": true} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			killed := newClient(t, store, nil)
			lock(t, killed, "r", &holdfast.LockOptions{LockID: "own", NoKeepAlive: true})
			began := time.Now()
			c := newClient(t, store, nil)
			_, err := c.TryLock(t.Context(), "r", own)
			if held := heldError(t, err); held.BySelf || len(held.Holders) != 1 || held.Holders[0].LockID != "own" {
				t.Errorf("TryLock took the hold for its own: %+v", held)
			}
			var head <-chan result
			if inLine {
				head = locking(t.Context(), c, "r", nil)
				synctest.Wait()
			}
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = c.Lock(short, "r", own)
			if held := heldError(t, err); held.BySelf || !errors.Is(held.Cause, context.DeadlineExceeded) {
				t.Errorf("Lock failed with %+v", held)
			}
			mine := locking(t.Context(), c, "r", own)
			if inLine {
				unlock(t, granted(t, head))
			}
			r := <-mine
			if r.err != nil {
				t.Fatal(r.err)
			}
			if waited := r.at.Sub(began); waited < holdfast.DefaultTTL || waited > holdfast.DefaultTTL+time.Second {
				t.Errorf("waited for %v", waited)
			}
		})
	}
	inBubble(t, "one's own, which was lost", func(t *testing.T) {
		// The store may still have the hold for its margin.
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{LockID: "own", NoKeepAlive: true})
		<-h.Context().Done()
		began := time.Now()
		lock(t, c, "r", own)
		if time.Since(began) == 0 {
			t.Error("the store no longer had the hold: nothing was tested")
		}
	})
	inBubble(t, "one's own, which is released later", func(t *testing.T) {
		c := newClient(t, memlock.New(nil), nil)
		if err := lock(t, c, "r", own).UnlockAfter(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		lock(t, c, "r", own)
		if waited := time.Since(began); waited < 5*time.Second || waited > 6*time.Second {
			t.Errorf("waited for %v", waited)
		}
	})
	inBubble(t, "a late attempt's", func(t *testing.T) {
		// The connection breaks while a request is under way. The request arrives 25 s later,
		// while the Lock with a lock ID of its own still waits.
		store := memlock.New(nil)
		arrive, gate := make(chan struct{}), make(chan struct{})
		var closed atomic.Bool // whether the gate is closed
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldRequest: arrive, LoseReply: true}, 1),
			while(&closed, on(drivertest.Acquire, drivertest.Fault{HoldRequest: gate})))
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		mine := running(func() (*holdfast.Hold, error) {
			return c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: time.Second, Fair: true})
		})
		time.Sleep(25 * time.Second)
		closed.Store(true)
		unlocked := time.Now()
		unlock(t, h)
		synctest.Wait()
		close(arrive) // before the next attempt
		synctest.Wait()
		if len(holdsIn(t, store, "r")) != 1 {
			t.Fatal("the late attempt got nothing")
		}
		closed.Store(false)
		close(gate)
		if r := <-mine; r.err != nil || r.at.Sub(unlocked) > 3*time.Second {
			t.Errorf("after %v: %v", r.at.Sub(unlocked), r.err)
		}
	})
	inBubble(t, "a second copy's", func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, &doubling{Store: store}, nil), newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		mine := locking(t.Context(), c, "r", nil)
		time.Sleep(2 * time.Second)
		unlocked := time.Now()
		unlock(t, h)
		if r := <-mine; r.err != nil || r.at.Sub(unlocked) > holdfast.DefaultTTL+time.Second {
			t.Errorf("after %v: %v", r.at.Sub(unlocked), r.err)
		}
	})
	inBubble(t, "grant whose answer is on its way", func(t *testing.T) {
		store := memlock.New(nil)
		answer := make(chan struct{})
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 1))
		c := newClient(t, f, nil)
		grant := running(func() (*holdfast.Hold, error) { return c.TryLock(t.Context(), "r", own) })
		synctest.Wait()
		var waits []<-chan result
		for range 3 {
			waits = append(waits, locking(t.Context(), c, "r", own))
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		for _, w := range waits {
			if len(w) != 0 {
				t.Fatal("Lock failed because of a hold that was not granted yet")
			}
		}
		began := time.Now()
		close(answer)
		h := granted(t, grant)
		for _, w := range waits {
			mustBeTold(t, (<-w).err, began)
		}
		unlock(t, h)
	})
	inBubble(t, "one waiter is granted, the other told", func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		first := locking(t.Context(), c, "r", own)
		synctest.Wait()
		second := locking(t.Context(), c, "r", own)
		time.Sleep(time.Minute)
		if len(first)+len(second) != 0 {
			t.Fatal("Lock took another's hold for its own")
		}
		began := time.Now()
		unlock(t, h)
		granted(t, first)
		mustBeTold(t, (<-second).err, began)
	})
	inBubble(t, "news out of date", func(t *testing.T) {
		// An attempt of the queue's head is under way when the acquirer arrives: the holder
		// in its answer may have gone.
		store := memlock.New(nil)
		answer := make(chan struct{})
		f := faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 1))
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, d, "r", own)
		head := locking(t.Context(), c, "r", nil)
		synctest.Wait()
		unlock(t, h)
		mine := locking(t.Context(), c, "r", own)
		synctest.Wait()
		close(answer)
		r := <-head
		if r.err != nil {
			t.Fatal(r.err)
		}
		unlock(t, r.hold)
		if r := <-mine; r.err != nil {
			t.Errorf("told of a hold that was released before: %v", r.err)
		}
	})
	inBubble(t, "orphan", func(t *testing.T) {
		// This Client is cleaning the hold up, so it is worth waiting.
		store := memlock.New(nil)
		f := faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})}, 1),
			on(drivertest.Release, drivertest.Fault{LoseRequest: true}, 1, 2, 3, 4, 5))
		c := newClient(t, f, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "r", own); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrHeld) {
			t.Fatalf("got error %v", err)
		}
		if len(holdsIn(t, store, "r")) != 1 {
			t.Fatal("the clean-up has no orphan")
		}
		_, err := c.TryLock(t.Context(), "r", own)
		if held := heldError(t, err); held.BySelf {
			t.Error("TryLock took the orphan for its own hold")
		}
		lock(t, c, "r", own)
	})
	inBubble(t, "orphan that is gone when the refusal is heard", func(t *testing.T) {
		store := memlock.New(nil)
		clean, answer := make(chan struct{}), make(chan struct{})
		f := faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})}, 1),
			on(drivertest.Release, drivertest.Fault{HoldRequest: clean}, 1),
			on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 2))
		c := newClient(t, f, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Lock(ctx, "r", own)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got error %v", err)
		}
		mine := locking(t.Context(), c, "r", own)
		synctest.Wait()
		close(clean)
		synctest.Wait()
		mustBeFree(t, store, "r")
		close(answer)
		if r := <-mine; r.err != nil {
			t.Errorf("took the orphan for its own hold: %v", r.err)
		}
	})
}

// doubling is a store that repeats its first acquire a little more than 2 s later.
type doubling struct {
	driver.Store
	asked bool
}

func (s *doubling) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if !s.asked {
		s.asked = true
		time.AfterFunc(2*time.Second+time.Millisecond, func() { _, _ = s.Store.Acquire(context.Background(), q) })
	}
	return s.Store.Acquire(ctx, q)
}

// granted returns the hold of a result, which must be a grant.
func granted(t *testing.T, got <-chan result) *holdfast.Hold {
	t.Helper()
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.hold
}

// A waiter that waits for another process's hold of its own lock ID delays no other waiter of
// its Client: they share the resource and have their place in the store's queue.
func TestOwnHoldStopsNoOthers(t *testing.T) {
	own := &holdfast.LockOptions{LockID: "own", NoKeepAlive: true}
	ownPermit := &holdfast.LockOptions{LockID: "own", Limit: 2, NoKeepAlive: true}
	permit := &holdfast.LockOptions{Limit: 2}
	for name, first := range map[string]bool{"before others": true, "behind others": false} {
		inBubble(t, "reader "+name, func(t *testing.T) {
			store := memlock.New(nil)
			c, d := newClient(t, store, nil), newClient(t, store, nil)
			rlock := func(c *holdfast.Client, o *holdfast.LockOptions) <-chan result {
				got := running(func() (*holdfast.Hold, error) { return c.RLock(t.Context(), "r", o) })
				synctest.Wait()
				return got
			}
			began := time.Now()
			granted(t, rlock(d, ownPermit)) // its process is killed
			full := granted(t, rlock(d, permit))
			var named, other <-chan result
			if first {
				named, other = rlock(c, ownPermit), rlock(c, permit)
			} else {
				other, named = rlock(c, permit), rlock(c, ownPermit)
			}
			time.Sleep(time.Second)
			unlock(t, full)
			unlock(t, granted(t, other))
			unlock(t, granted(t, rlock(c, permit))) // a later one
			if waited := time.Since(began); waited > 2*time.Second {
				t.Errorf("the others waited %v", waited)
			}
			unlock(t, granted(t, named))
			if waited := time.Since(began); waited < holdfast.DefaultTTL || waited > holdfast.DefaultTTL+time.Second {
				t.Errorf("granted after %v", waited)
			}
		})
	}
	inBubble(t, "fair", func(t *testing.T) {
		store := memlock.New(nil)
		c, d, e := newClient(t, store, nil), newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, d, "r", own)
		fair := &holdfast.LockOptions{Fair: true}
		named := locking(t.Context(), c, "r", &holdfast.LockOptions{LockID: "own", Fair: true})
		time.Sleep(time.Second)
		first := locking(t.Context(), c, "r", fair)
		time.Sleep(time.Second)
		later := locking(t.Context(), e, "r", fair)
		time.Sleep(time.Second)
		unlock(t, h)
		for _, waiter := range []<-chan result{first, later, named} {
			unlock(t, granted(t, waiter))
		}
	})
	inBubble(t, "not for ever", func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, d, "r", own)
		ctx, cancel := context.WithCancel(t.Context())
		_ = locking(ctx, c, "r", &holdfast.LockOptions{LockID: "own"})
		synctest.Wait()
		named := locking(t.Context(), c, "r", &holdfast.LockOptions{LockID: "own"}) // it has not asked yet
		synctest.Wait()
		var line []<-chan result
		later := func() {
			line = append(line, locking(t.Context(), c, "r", nil))
			synctest.Wait()
		}
		later()
		later()
		cancel()
		synctest.Wait()
		unlock(t, h)
		for range 10 { // a later waiter waits at any time
			select {
			case r := <-named:
				unlock(t, r.hold)
				for _, waiter := range line {
					unlock(t, granted(t, waiter))
				}
				return
			case r := <-line[0]:
				line = line[1:]
				later()
				time.Sleep(time.Second)
				unlock(t, r.hold)
			}
		}
		t.Error("the waiter is overtaken again and again")
	})
	inBubble(t, "many", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, d, "r", own)
		var named []<-chan result
		for range 20 {
			named = append(named, locking(t.Context(), c, "r", own))
			synctest.Wait()
		}
		asked := f.Calls(drivertest.Acquire)
		time.Sleep(time.Second)
		if n := f.Calls(drivertest.Acquire) - asked; n > 3 {
			t.Errorf("the waiters asked %d times in a second", n)
		}
		unlock(t, h)
		told, held := 0, 0
		errs := make(map[*holdfast.HeldError]bool) // each caller may change its own error
		for _, waiter := range named {
			if r := <-waiter; r.err == nil {
				held++
			} else if e := heldError(t, r.err); e.BySelf && !errs[e] {
				told++
				errs[e] = true
			}
		}
		if held != 1 || told != 19 {
			t.Errorf("%d were granted the lock and %d were refused for an own hold", held, told)
		}
	})
}

// While a waiter's attempt is under way, another goroutine of its Client is granted a hold by
// the same lock ID. The store's answer may be older, and the waiter may not have to ask
// again.
func TestOwnHoldWhileAsking(t *testing.T) {
	for name, lost := range map[string]bool{"refused": false, "no answer": true} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			arrive, answer := make(chan struct{}), make(chan struct{})
			var disturbed atomic.Bool
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Acquire && disturbed.Load() && (c.Refs[0].LockID == "third" || c.Refs[0].LockID == "own") {
					return drivertest.Fault{HoldRequest: arrive, HoldReply: answer, LoseReply: lost}
				}
				return drivertest.Fault{}
			})
			c, d := newClient(t, f, nil), newClient(t, store, nil)
			permit := func(lockID string) *holdfast.LockOptions {
				return &holdfast.LockOptions{Limit: 3, LockID: lockID}
			}
			h := lock(t, d, "r", nil)
			waiters := make(map[string]<-chan result)
			for _, lockID := range []string{"first", "second", "third", "own"} {
				waiters[lockID] = running(func() (*holdfast.Hold, error) { return c.RLock(t.Context(), "r", permit(lockID)) })
				synctest.Wait()
			}
			disturbed.Store(true)
			unlock(t, h) // the first two are granted a permit each, and the others ask
			first, second := granted(t, waiters["first"]), granted(t, waiters["second"])
			synctest.Wait()
			full, err := d.TryRLock(t.Context(), "r", permit("full"))
			if err != nil {
				t.Fatal(err)
			}
			close(arrive)
			synctest.Wait()
			disturbed.Store(false)
			unlock(t, full)
			own, err := c.TryRLock(t.Context(), "r", permit("own"))
			if errors.Is(err, holdfast.ErrHeld) {
				return // the signal of that release was quicker: the third has the permit
			} else if err != nil {
				t.Fatal(err)
			}
			close(answer)
			synctest.Wait()
			select {
			case r := <-waiters["own"]:
				if !heldError(t, r.err).BySelf {
					t.Errorf("got %v", r.err)
				}
			default:
				t.Error("the waiter waits for its own Client's hold")
			}
			unlock(t, own)
			unlock(t, granted(t, waiters["third"]))
			unlock(t, first)
			unlock(t, second)
		})
	}
}

// Two Locks with the same lock ID wait in one Client. The first is granted, but the answer is
// under way while ReleaseID releases the hold, which ends at once. The second then has no own
// hold to wait for, and is the next.
func TestOwnHoldThatEndedOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		answer := make(chan struct{})
		c := newClient(t, faulty(t, store, on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 1)), nil)
		o := &holdfast.LockOptions{LockID: "mine"}
		one := locking(t.Context(), c, "r", o)
		synctest.Wait()
		two := locking(t.Context(), c, "r", o)
		synctest.Wait()
		ss, err := c.Admin().ReleaseID(t.Context(), "mine")
		if err != nil || len(ss) != 1 {
			t.Fatal(ss, err)
		}
		close(answer)
		r := <-one
		if r.err != nil || r.hold.Left() != 0 {
			t.Fatal(r.err, r.hold.Left())
		}
		select {
		case r := <-two:
			if r.err != nil {
				t.Errorf("the second Lock fails: %v", r.err)
			}
		case <-time.After(time.Minute):
			t.Error("the second Lock still waits")
		}
	})
}

// hiding hides the lock IDs of other clients' holds, as a server does from callers without
// the right to force.
type hiding struct {
	driver.Store
	asks atomic.Int64
}

func (s *hiding) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	s.asks.Add(1)
	time.Sleep(time.Millisecond)
	g, err := s.Store.Acquire(ctx, q)
	var held *driver.HeldError
	if errors.As(err, &held) {
		for i := range held.Holders {
			if held.Holders[i].LockID != q.LockID {
				held.Holders[i].LockID = ""
			}
		}
	}
	return g, err
}

// A process with two fixed lock IDs was killed, and the next one waits until the holds have
// expired.
func TestOwnLockIDsThatAreHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memlock.New(nil)
		s := &hiding{Store: mem}
		killed, next := unswept(mem, &holdfast.Options{LeaveHolds: true}), newClient(t, s, nil)
		for _, id := range []string{"worker-1", "worker-2"} {
			if _, err := killed.RLock(t.Context(), "r", &holdfast.LockOptions{LockID: id, Limit: 10}); err != nil {
				t.Fatal(err)
			}
		}
		_ = killed.Close()
		var all []<-chan result
		for _, id := range []string{"worker-1", "worker-2"} {
			all = append(all, running(func() (*holdfast.Hold, error) {
				return next.RLock(t.Context(), "r", &holdfast.LockOptions{LockID: id, Limit: 10})
			}))
		}
		time.Sleep(20 * time.Second)
		if n := s.asks.Load(); n > 200 {
			t.Errorf("two waiters asked %d times in 20 s", n)
		}
		for _, w := range all {
			if r := <-w; r.err != nil {
				t.Error(r.err)
			}
		}
	})
}

// busy is a store in which the lock ID "own" holds every resource, according to its answers
// from the second one on.
type busy struct {
	driver.Store
	asked bool
}

func (*busy) Traits() driver.Traits { return driver.Traits{} }

func (b *busy) Release(_ context.Context, rs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return []driver.ReleaseResult{{Found: true}}, nil
}

func (b *busy) Acquire(_ context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if !b.asked {
		b.asked = true
		return driver.Grant{}, errors.New("no answer")
	}
	return driver.Grant{}, &holdfast.HeldError{
		Resource: q.Resource, RetryAfter: driver.Unknown, BySelf: q.LockID == "own",
		Holders: []holdfast.Status{{Resource: q.Resource, LockID: "own", HoldID: driver.NewHoldID(), Left: time.Hour}},
	}
}

// A program that locks a new resource each time must not grow: the Client keeps nothing of a
// resource that has no waiter and no holder, however the waits ended.
func TestLinesLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := holdfast.New(&busy{}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		// Both learn of it at once, and go in any order.
		for range 2 {
			go func() { _, _ = c.Lock(ctx, "both own", &holdfast.LockOptions{LockID: "own"}) }()
			synctest.Wait()
		}
		holdfast.EndWaitsOf(c, "both own", "own")
		synctest.Wait()
		if n := holdfast.Waits(c); n != 0 {
			t.Errorf("%d waiters are left", n)
		}
		for i := range 20 {
			o := &holdfast.LockOptions{}
			if i%3 == 1 {
				o.LockID = "own" // it loses its place in line
			}
			ctx := ctx
			if i%4 == 0 {
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				ctx = short
			}
			go func() { _, _ = c.Lock(ctx, "r", o) }()
			synctest.Wait()
		}
		time.Sleep(15 * time.Second)
		if n := holdfast.Waits(c) + holdfast.Orphans(c); n != 0 || len(c.Admin().Live()) != 0 {
			t.Errorf("left: %d waits and orphans, holds %v", n, c.Admin().Live())
		}
	})
}

// The head of a Client's queue is refused for its own lock ID because of a grant to another
// request: the next waiter becomes the head in time.
func TestHeadWithOwnLockIDLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		gates := map[string]chan struct{}{"head": make(chan struct{}), "next": make(chan struct{})}
		var closed atomic.Bool // whether the gates are closed
		f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Acquire && closed.Load() {
				return drivertest.Fault{HoldRequest: gates[c.Refs[0].LockID]} // nil for others: no gate
			}
			return drivertest.Fault{}
		})
		permit := func(lockID string, fair bool) *holdfast.LockOptions {
			return &holdfast.LockOptions{LockID: lockID, Fair: fair, Limit: 4}
		}
		other, c := newClient(t, store, nil), newClient(t, &deaf{Store: f}, nil)
		h := lock(t, other, "r", nil)
		var waits []<-chan result
		for _, w := range []*holdfast.LockOptions{permit("1", true), permit("2", true), permit("head", false), permit("next", true)} {
			waits = append(waits, running(func() (*holdfast.Hold, error) { return c.RLock(t.Context(), "r", w) }))
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		closed.Store(true)
		unlock(t, h)
		holds := []*holdfast.Hold{(<-waits[0]).hold, (<-waits[1]).hold} // the two others were invited and their requests are under way
		take := func(c *holdfast.Client, lockID string) *holdfast.Hold {
			h, err := c.TryRLock(t.Context(), "r", permit(lockID, false))
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		first := take(other, "first")
		holds = append(holds, take(other, "second"))
		close(gates["head"])
		time.Sleep(2 * time.Second)
		mustWait(t, other, "r", "head")
		unlock(t, first)
		holds = append(holds, take(c, "head"))
		close(gates["next"])
		if r := <-waits[2]; !errors.Is(r.err, holdfast.ErrHeld) {
			t.Fatal(r.err)
		}
		asked := f.Calls(drivertest.Acquire)
		time.Sleep(10 * time.Second)
		mustWait(t, other, "r", "next")
		if n := f.Calls(drivertest.Acquire) - asked; n > 100 {
			t.Errorf("the waiters asked %d times in 10 s", n)
		}
		for _, h := range holds {
			unlock(t, h)
		}
		unlock(t, (<-waits[3]).hold)
	})
}

// Waiters with lock IDs of their own do not ask more often.
func TestNamedWaitersInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		lock(t, d, "r", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { _, _ = c.Lock(ctx, "r", &holdfast.LockOptions{LockID: fmt.Sprint("job ", i)}) })
			time.Sleep(2 * time.Millisecond)
		}
		if n := f.Calls(drivertest.Acquire); n > 6 {
			t.Errorf("%d acquires for 1,000 who came in 2 s, want one a second or so", n)
		}
		all.Wait()
	})
}

// A waiter learns at once of an own hold that came after the last refusal, however many
// waiters are before it.
func TestOwnHoldIsToldInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		if _, err := d.RLock(t.Context(), "r", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		writer := locking(ctx, c, "r", nil)
		synctest.Wait()
		own := &holdfast.LockOptions{LockID: "own"}
		if _, err := c.TryRLock(t.Context(), "r", own); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := c.Lock(t.Context(), "r", own)
		if held := heldError(t, err); !held.BySelf || time.Since(began) > 0 {
			t.Errorf("got %+v after %v", held, time.Since(began))
		}
		cancel()
		<-writer
	})
}

// The remains of an unanswered acquire stop the next ones with its lock ID until they are
// cleaned up. The refusal arrives at the same moment: neither the asking waiter nor the one
// behind it takes it for a hold of this Client.
func TestOrphanThatEndsStopsNobody(t *testing.T) {
	own := &holdfast.LockOptions{LockID: "own"}
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		clean, answer := make(chan struct{}), make(chan struct{})
		c := newClient(t, faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})}, 1),
			on(drivertest.Release, drivertest.Fault{HoldRequest: clean}, 1),
			on(drivertest.Acquire, drivertest.Fault{HoldReply: answer}, 2)), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "r", own); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got error %v", err)
		}
		first := locking(t.Context(), c, "r", own)
		synctest.Wait()
		behind := locking(t.Context(), c, "r", own)
		synctest.Wait()
		close(clean)
		close(answer) // in any order
		got, told := <-first, <-behind
		if got.err != nil { // either may be first
			got, told = told, got
		}
		if got.err != nil {
			t.Fatal(got.err)
		}
		h := got.hold
		if held := heldError(t, told.err); !held.BySelf || len(held.Holders) != 1 || held.Holders[0].HoldID != h.ID() {
			t.Errorf("the other waiter got %+v", held)
		}
		unlock(t, h)
	})
}
