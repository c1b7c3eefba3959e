package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
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

// group acquires the resources by one lock ID.
func group(t *testing.T, c *holdfast.Client, lockID string, resources ...string) []*holdfast.Hold {
	t.Helper()
	hs := make([]*holdfast.Hold, len(resources))
	for i, r := range resources {
		hs[i] = lock(t, c, r, &holdfast.LockOptions{LockID: lockID})
		time.Sleep(time.Millisecond) // so that the holds have different times
	}
	return hs
}

func resourcesOf(ss []holdfast.Status) []string {
	var rs []string
	for _, s := range ss {
		rs = append(rs, s.Resource)
	}
	return rs
}

func TestS27_groups(t *testing.T) {
	inBubble(t, "release, the newest first", func(t *testing.T) {
		store := memlock.New(nil)
		arrive := make(chan struct{})
		var order []string
		f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			if c.Op != drivertest.Release {
				return drivertest.Fault{}
			}
			for _, ref := range c.Refs {
				order = append(order, ref.Resource)
			}
			return drivertest.Fault{HoldRequest: arrive}
		})
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		mine := group(t, c, "g", "a", "b")
		theirs := group(t, d, "g", "x")
		other := lock(t, c, "other", nil)
		type answer struct {
			ss  []holdfast.Status
			err error
		}
		answered := make(chan answer, 1)
		go func() {
			ss, err := c.Admin().ReleaseID(t.Context(), "g")
			answered <- answer{ss, err}
		}()
		synctest.Wait()
		for _, h := range mine {
			if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrReleased) {
				t.Errorf("before the store is told, the holder's context has ended with %v", cause)
			}
		}
		close(arrive)
		got := <-answered
		if got.err != nil {
			t.Fatal(got.err)
		}
		want := []string{"x", "b", "a"}
		if !slices.Equal(order, want) || !slices.Equal(resourcesOf(got.ss), want) {
			t.Errorf("released %v, returned %v, want %v", order, resourcesOf(got.ss), want)
		}
		for _, r := range want {
			mustBeFree(t, store, r)
		}
		for _, h := range mine {
			unlock(t, h)
		}
		mustEnd(t, theirs[0], time.Minute, holdfast.ErrForced)
		alive(t, other)
		if ss, err := c.Admin().ReleaseID(t.Context(), "g"); err != nil || len(ss) != 0 {
			t.Errorf("of a group that is gone: %v, %v", ss, err)
		}
	})
	inBubble(t, "release without an answer", func(t *testing.T) {
		f := faulty(t, memlock.New(nil), on(drivertest.Release, drivertest.Fault{LoseReply: true}, 1, 2))
		c := newClient(t, f, nil)
		group(t, c, "g", "a", "b")
		if ss, err := c.Admin().ReleaseID(t.Context(), "g"); err != nil || len(ss) != 2 {
			t.Errorf("got %v, %v", ss, err)
		}
		var well atomic.Bool
		f = faulty(t, memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Release && !well.Load() {
				return drivertest.Fault{DropLast: 1}
			}
			return drivertest.Fault{}
		})
		c = newClient(t, f, nil)
		hs := group(t, c, "g", "a", "b")
		if _, err := c.Admin().ReleaseID(t.Context(), "g"); err == nil {
			t.Error("one release was never answered, but the error is nil")
		}
		well.Store(true)
		for _, h := range hs {
			unlock(t, h)
		}
	})
	inBubble(t, "granted after the look", func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		old := group(t, c, "g", "a")[0]
		var retaken *holdfast.Hold
		e := newClient(t, listing{store, func() {
			unlock(t, old)
			retaken = group(t, d, "g", "a")[0]
		}}, nil)
		if _, err := e.Admin().ReleaseID(t.Context(), "g"); err != nil {
			t.Fatal(err)
		}
		mustBeHeldBy(t, store, retaken)
		time.Sleep(time.Minute)
		alive(t, retaken)
	})
	inBubble(t, "renew", func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		mine := group(t, c, "g", "a", "b", "given up")
		theirs := lock(t, d, "x", &holdfast.LockOptions{LockID: "g", NoKeepAlive: true, TTL: 2 * time.Hour})
		if err := mine[2].UnlockAfter(t.Context(), 20*time.Second); err != nil {
			t.Fatal(err)
		}
		lock(t, c, "other", nil)
		ss, err := c.Admin().RenewID(t.Context(), "g", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if got := resourcesOf(ss); !slices.Equal(got, []string{"x", "b", "a"}) {
			t.Errorf("renewed %v", got)
		}
		for _, s := range ss {
			if want := time.Hour; s.Resource != "x" && s.Left != want {
				t.Errorf("%q has %v left, want %v", s.Resource, s.Left, want)
			}
			if s.Resource == "x" && s.Left < 119*time.Minute {
				t.Errorf("it was shortened to %v", s.Left)
			}
		}
		for _, h := range mine[:2] {
			if want := time.Hour - 5*time.Second; h.Left() != want {
				t.Errorf("the holder has %v left, want %v", h.Left(), want)
			}
		}
		alive(t, theirs)
		if left := holdsIn(t, store, "other")[0].Left; left > 30*time.Second {
			t.Errorf("another lock ID's hold was renewed to %v", left)
		}

		ss, err = c.Admin().RenewID(t.Context(), "nobody", time.Hour)
		if !errors.Is(err, holdfast.ErrLost) || len(ss) != 0 {
			t.Errorf("of nobody: %v, %v", ss, err)
		}
	})
	inBubble(t, "renew in a store that does not return the time left", func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, untelling{store}, nil)
		group(t, c, "g", "a")
		lock(t, c, "x", &holdfast.LockOptions{LockID: "g", NoKeepAlive: true, TTL: 2 * time.Hour})
		lock(t, c, "y", &holdfast.LockOptions{LockID: "g", NoKeepAlive: true, TTL: holdfast.Forever})
		for _, ttl := range []time.Duration{time.Hour, holdfast.Forever} {
			time.Sleep(time.Second)
			ss, err := c.Admin().RenewID(t.Context(), "g", ttl)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range ss {
				if want := holdsIn(t, store, s.Resource)[0].Left; s.Left > want || s.Left < want-3*time.Second {
					t.Errorf("%q has %v left, want %v", s.Resource, s.Left, want)
				}
			}
		}
	})
	inBubble(t, "renew with some holds lost or unanswered", func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		hs := group(t, c, "g", "a", "b")
		d := newClient(t, listing{store, func() { unlock(t, hs[0]) }}, nil)
		ss, err := d.Admin().RenewID(t.Context(), "g", time.Hour)
		if got := resourcesOf(ss); !errors.Is(err, holdfast.ErrLost) || !slices.Equal(got, []string{"b"}) {
			t.Errorf("renewed %v, error %v", got, err)
		}

		f := faulty(t, store, on(drivertest.Renew, drivertest.Fault{DropLast: 1}))
		e := newClient(t, f, nil)
		hs = group(t, e, "h", "c", "d")
		ss, err = e.Admin().RenewID(t.Context(), "h", time.Hour)
		if got := resourcesOf(ss); err == nil || errors.Is(err, holdfast.ErrLost) || !slices.Equal(got, []string{"d"}) {
			t.Errorf("renewed %v, error %v", got, err)
		}
		alive(t, hs[0])
		alive(t, hs[1])
	})
	inBubble(t, "two groups in opposite order", func(t *testing.T) {
		// A caller that cannot lock everything in time releases what it has, by lock ID.
		store := memlock.New(nil)
		var mu sync.Mutex
		var inside, done int
		var all sync.WaitGroup
		for i, order := range [][]string{{"A", "B"}, {"B", "A"}} {
			c, id := newClient(t, store, nil), fmt.Sprint("group ", i)
			all.Go(func() {
				for round := range 5 {
					for !takeAll(t, c, id, time.Duration(i+1)*time.Second, order) {
					}
					mu.Lock()
					inside++
					if inside != 1 {
						t.Errorf("round %d: %d groups have all locks at once", round, inside)
					}
					mu.Unlock()
					time.Sleep(500 * time.Millisecond)
					mu.Lock()
					inside--
					done++
					mu.Unlock()
					if ss, err := c.Admin().ReleaseID(t.Context(), id); err != nil || len(ss) != 2 {
						t.Errorf("released %v, %v", resourcesOf(ss), err)
					}
				}
			})
		}
		all.Wait()
		if done != 10 {
			t.Errorf("only %d of 10 rounds are done", done)
		}
		mustBeFree(t, store, "")
	})
	inBubble(t, "a crash half-way", func(t *testing.T) {
		store := memlock.New(nil)
		crashing := unswept(store, &holdfast.Options{LeaveHolds: true})
		group(t, crashing, "g", "A", "B")
		_ = crashing.Close()
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		_, err := c.TryLock(t.Context(), "A", &holdfast.LockOptions{LockID: "g"})
		if held := heldError(t, err); held.BySelf || held.Holders[0].LockID != "g" {
			t.Errorf("after the crash, a Lock with its lock ID failed with %+v", held)
		}
		began := time.Now()
		waiting := locking(t.Context(), d, "B", nil)
		synctest.Wait()
		if ss, err := c.Admin().ReleaseID(t.Context(), "g"); err != nil || len(ss) != 2 {
			t.Errorf("released %v, %v", resourcesOf(ss), err)
		}
		if r := <-waiting; r.err != nil || r.at != began {
			t.Errorf("granted after %v, error %v", r.at.Sub(began), r.err)
		}
		tryLock(t, c, "A", &holdfast.LockOptions{LockID: "g"})
	})
	inBubble(t, "a resource twice", func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		group(t, c, "g", "A", "B")
		_, err := c.Lock(t.Context(), "A", &holdfast.LockOptions{LockID: "g"})
		if held := heldError(t, err); !held.BySelf {
			t.Errorf("got %+v", held)
		}
		if ss, err := c.Admin().ReleaseID(t.Context(), "g"); err != nil || len(ss) != 2 {
			t.Errorf("released %v, %v", resourcesOf(ss), err)
		}
	})
	inBubble(t, "many", func(t *testing.T) {
		f := faulty(t, memlock.New(nil))
		c, d := newClient(t, f, nil), newClient(t, f, nil)
		for i := range 1500 {
			lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{LockID: "g"})
		}
		if ss, err := d.Admin().RenewID(t.Context(), "g", time.Hour); err != nil || len(ss) != 1500 {
			t.Errorf("renewed %d, %v", len(ss), err)
		}
		if ss, err := d.Admin().ReleaseID(t.Context(), "g"); err != nil || len(ss) != 1500 {
			t.Errorf("released %d, %v", len(ss), err)
		}
		if r, n := f.Calls(drivertest.Release), f.Calls(drivertest.Renew); r != 2 || n != 2 {
			t.Errorf("%d releases, %d renewals were sent, want 2 of each", r, n)
		}
	})
}

// takeAll acquires all resources in order, or none.
func takeAll(t *testing.T, c *holdfast.Client, lockID string, within time.Duration, resources []string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for _, r := range resources {
		if _, err := c.Lock(ctx, r, &holdfast.LockOptions{LockID: lockID}); err != nil {
			if _, err := c.Admin().ReleaseID(t.Context(), lockID); err != nil {
				t.Error(err)
			}
			return false
		}
		time.Sleep(100 * time.Millisecond)
	}
	return true
}

// listing is a store that calls a function after each List.
type listing struct {
	*memlock.Store
	then func()
}

func (l listing) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		l.Store.List(ctx, f)(yield)
		l.then()
	}
}

// reasons is a store that records the reasons of releases.
type reasons struct {
	*memlock.Store
	got []string
}

func (r *reasons) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	for _, q := range qs {
		if err := q.Validate(); err != nil {
			return nil, err
		}
		r.got = append(r.got, q.Reason)
	}
	return r.Store.Release(ctx, qs)
}

// ForceRelease does not return a hold that the store refuses to release. A hold of this
// Client that it has ended does not block others until its TTL is over.
func TestForcedReleaseRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		denied := drivertest.Fault{LoseRequest: true, Err: driver.ErrUnusable}
		c, d := newClient(t, faulty(t, store, on(drivertest.Release, denied, 1, 2)), nil), newClient(t, store, nil)
		own, other := lock(t, c, "own", nil), lock(t, d, "other", nil)
		for _, h := range []*holdfast.Hold{other, own} {
			ss, err := c.Admin().ForceRelease(t.Context(), h.Resource(), holdfast.HoldID{})
			if !errors.Is(err, holdfast.ErrUnusable) || len(ss) != 0 {
				t.Errorf("%q: released %v, error %v", h.Resource(), resourcesOf(ss), err)
			}
		}
		time.Sleep(time.Second)
		mustBeHeldBy(t, store, other)
		mustBeFree(t, store, "own")
		if cause := context.Cause(own.Context()); !errors.Is(cause, holdfast.ErrForced) {
			t.Errorf("the own hold ended with %v", cause)
		}
	})
}

// A store with access rights learns which releases are forced, and by whom.
func TestForcedReleasesSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &reasons{Store: memlock.New(nil)}
		c := newClient(t, store, &holdfast.Options{Owner: strings.Repeat("ä", 40), Host: "h"})
		group(t, c, "g", "a", "b")
		unlock(t, lock(t, c, "c", nil))
		if _, err := c.Admin().ReleaseID(t.Context(), "g"); err != nil {
			t.Fatal(err)
		}
		group(t, c, "g", "a", "b")
		for _, r := range []string{"a", "b"} {
			if ss, err := c.Admin().ForceRelease(t.Context(), r, holdfast.HoldID{}); err != nil || len(ss) != 1 {
				t.Fatal(ss, err)
			}
		}
		lock(t, c, "a", nil)
		admin := c.Admin()
		for _, admin.Reason = range []string{"\x00", strings.Repeat("x", driver.MaxName+1), "it hangs"} {
			_, err := admin.ForceRelease(t.Context(), "a", holdfast.HoldID{})
			if valid := admin.Reason == "it hangs"; errors.Is(err, holdfast.ErrInvalid) == valid || valid && err != nil {
				t.Errorf("%.9q: %v", admin.Reason, err)
			}
		}
		forced := "forced by " + strings.Repeat("ä", 32) + " on h"
		if want := []string{"", "", "", forced, forced, "it hangs"}; !slices.Equal(store.got, want) {
			t.Errorf("got %q, want %q", store.got, want)
		}
	})
}

func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store, on(drivertest.List, drivertest.Fault{LoseReply: true}, 2))
		c := newClient(t, f, &holdfast.Options{Owner: "ann"})
		began := time.Now()
		for i := range 3 {
			lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{LockID: fmt.Sprint("id ", i), Comment: "c"})
		}
		time.Sleep(time.Second)
		n := 0
		for s, err := range c.Admin().Holds(t.Context(), holdfast.Filter{Owner: "ann"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if s.LockID != "id "+s.Resource || s.Comment != "c" || !s.Created.Equal(began) || s.Left != 29*time.Second || s.Mode != holdfast.Exclusive {
				t.Errorf("%+v", s)
			}
		}
		if n != 3 {
			t.Errorf("%d holds, want 3", n)
		}

		var seen []error
		for _, err := range c.Admin().Holds(t.Context(), holdfast.Filter{}) {
			seen = append(seen, err)
		}
		if len(seen) != 2 || seen[0] != nil || !errors.Is(seen[1], drivertest.ErrFault) {
			t.Errorf("a list that breaks off yielded the errors %v, want none and one", seen)
		}

		for s, err := range c.Admin().Holds(t.Context(), holdfast.Filter{Resource: "1"}) {
			if err != nil || s.Resource != "1" {
				t.Errorf("%+v, %v", s, err)
			}
			// The body of a loop may use the Client and break.
			unlock(t, lock(t, c, "another", nil))
			break
		}
	})
}

// untelling is a store that does not return the time left of a renewed hold, and takes a
// second for each answer.
type untelling struct{ driver.Store }

func (s untelling) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		for st, err := range s.Store.List(ctx, f) {
			if !yield(st, err) {
				return
			}
		}
		time.Sleep(time.Second)
	}
}

func (s untelling) Renew(ctx context.Context, rs []driver.RenewRequest) ([]driver.RenewResult, error) {
	results, err := s.Store.Renew(ctx, rs)
	for i := range results {
		results[i].Left = driver.Unknown
	}
	time.Sleep(time.Second)
	return results, err
}

// sweeping is a store that records its sweeps.
type sweeping struct {
	driver.Store
	idle []time.Duration
}

func (s *sweeping) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	s.idle = append(s.idle, q.Idle)
	return s.Store.Sweep(ctx, q)
}

// A store that never answers delays a call by no more than scanTimeout, whatever the ctx
// allows. A slow body of a loop over Holds does not end the loop.
func TestScansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		never := drivertest.Fault{HoldReply: make(chan struct{})}
		hung := unswept(faulty(t, store, on(drivertest.List, never), on(drivertest.Sweep, never)), nil)
		for name, call := range map[string]func(context.Context) error{
			"Holds":        func(ctx context.Context) error { return firstError(ctx, hung) },
			"ReleaseID":    func(ctx context.Context) error { return second(hung.Admin().ReleaseID(ctx, "id")) },
			"ForceRelease": func(ctx context.Context) error { return second(hung.Admin().ForceRelease(ctx, "r", holdfast.HoldID{})) },
			"RenewID":      func(ctx context.Context) error { return second(hung.Admin().RenewID(ctx, "id", time.Minute)) },
			"Sweep":        func(ctx context.Context) error { return second(hung.Admin().Sweep(ctx)) },
		} {
			began := time.Now()
			err := call(t.Context())
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Minute {
				t.Errorf("%s took %v, error %v", name, took, err)
			} else if !strings.Contains(err.Error(), "no answer within 5m0s") {
				t.Errorf("%s: error %v", name, err)
			}
		}
		if err := hung.Close(); err != nil {
			t.Error(err)
		}

		c := unswept(store, nil)
		defer c.Close()
		for i := range 3 {
			lock(t, c, fmt.Sprint(i), nil)
		}
		n := 0
		for _, err := range c.Admin().Holds(t.Context(), holdfast.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			time.Sleep(time.Hour)
		}
		if n != 3 {
			t.Errorf("%d holds", n)
		}
	})
}

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sweeping{Store: memlock.New(nil)}
		for _, bad := range []time.Duration{-1, 1, time.Minute - 1} {
			c := newClient(t, store, &holdfast.Options{Retention: bad})
			if _, err := c.Admin().Sweep(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("retention %v: got error %v, want ErrInvalid", bad, err)
			}
		}
		if len(store.idle) != 0 {
			t.Error("the store was called although ctx has ended")
		}

		c := newClient(t, store, nil)
		d := newClient(t, store, &holdfast.Options{Retention: time.Minute})
		lock(t, c, "live", nil)
		lock(t, c, "expired", &holdfast.LockOptions{NoKeepAlive: true})
		unlock(t, lock(t, c, "idle", nil))
		time.Sleep(2 * time.Minute)
		if r, err := c.Admin().Sweep(t.Context()); err != nil || r != (driver.SweepResult{Holds: 1}) {
			t.Errorf("within 24 h: %+v, %v", r, err)
		}
		if r, err := d.Admin().Sweep(t.Context()); err != nil || r != (driver.SweepResult{Records: 1}) {
			t.Errorf("after a minute: %+v, %v", r, err)
		}
		if !slices.Equal(store.idle, []time.Duration{24 * time.Hour, time.Minute}) {
			t.Errorf("asked for %v", store.idle)
		}
		_, err := d.TryLock(t.Context(), "live", nil)
		mustBeHeld(t, err)
	})
}

func TestTraits(t *testing.T) {
	if got := newClient(t, memlock.New(nil), nil).Traits(); got != memlock.Traits() {
		t.Errorf("got %+v", got)
	}
}

// swept is a store that records the times of its sweeps.
type swept struct {
	*memlock.Store
	traits driver.Traits
	sweep  func(context.Context, driver.SweepRequest) (driver.SweepResult, error) // nil: call the store

	mu    sync.Mutex
	at    []time.Time
	calls []driver.SweepRequest
}

func newSwept() *swept {
	s := &swept{Store: memlock.New(nil)}
	s.traits = s.Store.Traits()
	s.traits.Sweeps = true
	return s
}

// times returns the times of the sweeps.
func (s *swept) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

func (s *swept) Traits() driver.Traits { return s.traits }

func (s *swept) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	s.calls = append(s.calls, q)
	s.mu.Unlock()
	if s.sweep != nil {
		return s.sweep(ctx, q)
	}
	return s.Store.Sweep(ctx, q)
}

// sweepingClient makes a Client that sweeps.
func sweepingClient(t *testing.T, s driver.Store, o *holdfast.Options) *holdfast.Client {
	c := holdfast.New(s, o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// All Clients of a store together sweep about once an hour, and finally no record is left.
func TestClientsSweepTogether(t *testing.T) {
	for _, clients := range []int{1, 20} {
		synctest.Test(t, func(t *testing.T) {
			s := newSwept()
			var cs []*holdfast.Client
			for range clients {
				cs = append(cs, sweepingClient(t, s, nil))
			}
			const hours = 72
			for i := range hours * 6 {
				unlock(t, lock(t, cs[i%len(cs)], fmt.Sprint(i), nil))
				time.Sleep(10 * time.Minute)
			}
			synctest.Wait()
			if n := len(s.times()); n < hours/2 || n > hours+1 {
				t.Errorf("%d Clients swept %d times in %d hours", clients, n, hours)
			}
			times := s.times()
			for i, at := range times[1:] {
				if pause := at.Sub(times[i]); pause < time.Hour {
					t.Errorf("swept again after %v", pause)
				}
			}
			for _, q := range s.calls {
				if q != (driver.SweepRequest{Idle: 24 * time.Hour, Most: 1000}) {
					t.Fatalf("the sweep request is %+v", q)
				}
			}
			r, err := s.Store.Sweep(t.Context(), driver.SweepRequest{Idle: 26 * time.Hour})
			if err != nil || r.Records != 0 {
				t.Errorf("left behind: %+v, %v", r, err)
			}
		})
	}
}

// Short-lived programs sweep together too, although they do not know of each other.
func TestShortLivedClientsSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwept()
		for range 7 * 24 * 60 { // one a minute, for a week
			c := holdfast.New(s, nil)
			h := lock(t, c, "job", nil)
			time.Sleep(10 * time.Second)
			unlock(t, h)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Second)
		}
		synctest.Wait()
		if n := len(s.times()); n < 7 || n > 7*24 {
			t.Errorf("swept %d times in a week", n)
		}
	})
}

// A backlog is swept in pieces, for at most 10 s, and the next Client continues.
func TestSweepIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwept()
		left := 30
		s.sweep = func(ctx context.Context, _ driver.SweepRequest) (driver.SweepResult, error) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return driver.SweepResult{}, ctx.Err()
			}
			left--
			return driver.SweepResult{Records: 1000, More: left > 0}, nil
		}
		c := sweepingClient(t, s, nil)
		unlock(t, lock(t, c, "r", nil))
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if left > 0 {
			t.Errorf("%d pieces are left", left)
		}
		times := s.times()
		for i := range times {
			n := 0
			for _, at := range times[i:] {
				if at.Sub(times[i]) < time.Minute {
					n++
				}
			}
			if n > 11 {
				t.Fatalf("%d calls within a minute", n)
			}
		}
	})
}

// Background sweeps are invisible: their failures are not reported, they are not traced, and
// Close does not wait for them.
func TestSweepDisturbsNobody(t *testing.T) {
	for name, sweep := range map[string]func(context.Context, driver.SweepRequest) (driver.SweepResult, error){
		"fails": func(context.Context, driver.SweepRequest) (driver.SweepResult, error) {
			return driver.SweepResult{}, errors.New("no")
		},
		"hangs": func(ctx context.Context, _ driver.SweepRequest) (driver.SweepResult, error) {
			<-ctx.Done()
			return driver.SweepResult{}, ctx.Err()
		},
		"goes on forever": func(context.Context, driver.SweepRequest) (driver.SweepResult, error) {
			time.Sleep(time.Second)
			return driver.SweepResult{More: true}, nil
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newSwept()
			s.sweep = sweep
			var j journal
			var log bytes.Buffer
			c := holdfast.New(s, &holdfast.Options{Trace: j.trace(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			h := lock(t, c, "r", &holdfast.LockOptions{TTL: 10 * time.Hour})
			synctest.Wait()
			j.take()
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			if len(s.times()) == 0 {
				t.Fatal("the Client did not sweep")
			}
			if got := j.take(); len(got) != 0 {
				t.Errorf("told of %q", got)
			}
			time.Sleep(rand.N(time.Hour))
			alive(t, h)
			began := time.Now()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("Close took %v", took)
			}
			if log.Len() > 0 {
				t.Errorf("logged:\n%s", &log)
			}
		})
	}
}

// The hold for the next sweep is listed only if the filter names its resource.
func TestSweepResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwept()
		c := sweepingClient(t, s, nil)
		lock(t, c, "r", nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		list := func(f holdfast.Filter) (names []string) {
			for st, err := range c.Admin().Holds(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, st.Resource)
			}
			return names
		}
		if got := list(holdfast.Filter{}); !slices.Equal(got, []string{"r"}) {
			t.Errorf("all: %q", got)
		}
		if got := list(holdfast.Filter{Resource: driver.SweepResource}); !slices.Equal(got, []string{driver.SweepResource}) {
			t.Errorf("by name: %q", got)
		}
	})
}

func TestNoSweep(t *testing.T) {
	for name, test := range map[string]struct {
		opts   holdfast.Options
		sweeps bool
	}{
		"by option":         {holdfast.Options{NoSweep: true}, true},
		"the store does it": {holdfast.Options{}, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newSwept()
			s.traits.Sweeps = test.sweeps
			c := sweepingClient(t, s, &test.opts)
			lock(t, c, "r", nil)
			time.Sleep(10 * time.Hour)
			if n := len(s.times()); n != 0 {
				t.Errorf("swept %d times", n)
			}
			mustBeFree(t, s, driver.SweepResource)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSwept()
		c := sweepingClient(t, s, nil)
		lock(t, newClient(t, s, nil), "r", nil)
		_, err := c.TryLock(t.Context(), "r", nil)
		mustBeHeld(t, err)
		time.Sleep(10 * time.Hour)
		if n := len(s.times()); n != 0 {
			t.Errorf("a Client that was granted nothing swept %d times", n)
		}
	})
}
