package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

func refOf(h *holdfast.Hold) driver.HoldRef {
	return driver.HoldRef{Resource: h.Resource(), LockID: h.LockID(), HoldID: h.ID(), Token: h.Token()}
}

func statusOf(t *testing.T, c *holdfast.Client, resource string) holdfast.Status {
	t.Helper()
	return first(t, c.Holds(t.Context(), holdfast.Filter{Resource: resource}))
}

// Programs that work under holds of other programs and wait for each other learn it,
// although the others renew these holds meanwhile. One of them gives up.
func TestDeadlockUnderOthers(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"often renewed": 2 * time.Second, "seldom renewed": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				started := time.Now()
				both := make(chan struct{}) // are held
				cross := func(outer, inner string) <-chan error {
					h := lock(t, newClient(t, store, &holdfast.Options{Owner: "who holds " + outer}), outer,
						&holdfast.LockOptions{TTL: ttl, ForOthers: true})
					c := newClient(t, store, nil)
					done := make(chan error, 1)
					go func() {
						<-both
						got, err := c.Lock(holdfast.Under(t.Context(), refOf(h)), inner, nil)
						unlock(t, h)
						if err == nil {
							unlock(t, got)
						}
						done <- err
					}()
					return done
				}
				one := cross("a", "b")
				other := cross("b", "a")
				close(both)
				looker := newClient(t, store, nil)
				time.Sleep(7 * time.Second)
				if path, err := looker.Deadlock(t.Context(), "a"); err != nil || len(path) != 2 || path[0].WaitsFor != path[1].Holds.Resource {
					t.Errorf("the deadlock is %+v, %v", path, err)
				}
				errs := []error{<-one, <-other}
				if errors.Is(errs[1], holdfast.ErrDeadlock) {
					slices.Reverse(errs)
				}
				if !errors.Is(errs[0], holdfast.ErrDeadlock) || errs[1] != nil {
					t.Fatalf("errors %v", errs)
				}
				if !strings.Contains(errs[0].Error(), "who holds") {
					t.Errorf("error %v", errs[0])
				}
				if took := time.Since(started); took > 15*time.Second {
					t.Errorf("found after %v", took)
				}
				if path, err := looker.Deadlock(t.Context(), "a"); err != nil || path != nil {
					t.Errorf("in the end the deadlock is %+v, %v", path, err)
				}
			})
		})
	}
}

// What is noted on a hold stays as long as its waiter has a place, and makes the hold
// last no longer.
func TestNoteUnderOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, other := newClient(t, store, nil), newClient(t, store, nil)
		blocked := lock(t, other, "b", nil)
		h := lock(t, c, "a", &holdfast.LockOptions{TTL: 3 * time.Second, ForOthers: true})
		ctx, cancel := context.WithCancel(t.Context())
		// Not when the hold is renewed: a note that is made between the renewal's look at the
		// notes and the renewal gets lost, until the waiter's next look.
		time.Sleep(300 * time.Millisecond)
		waits := locking(holdfast.Under(ctx, refOf(h)), other, "b", nil)
		time.Sleep(6 * time.Second)
		noted := statusOf(t, c, "a").Waits
		if noted == nil || noted.Resource != "b" || noted.Place.IsZero() {
			t.Fatalf("noted %+v", noted)
		}
		if p := place(t, c, "b"); p.Left > driver.DefaultKeep {
			t.Errorf("the place is kept for %v, although a note leads to it", p.Left)
		}
		time.Sleep(time.Minute)
		if now := statusOf(t, c, "a").Waits; now == nil || *now != *noted {
			t.Errorf("a minute later: %+v, want %+v", now, noted)
		}
		cancel()
		<-waits
		time.Sleep(2500 * time.Millisecond) // and half a second before the next renewal
		if now := statusOf(t, c, "a").Waits; now != nil {
			t.Errorf("after the wait: %+v", now)
		}
		// A waiter that is killed clears nothing.
		ref := refOf(h)
		if _, err := store.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Millisecond, Waits: noted}}); err != nil {
			t.Fatal(err)
		}
		if s := statusOf(t, c, "a"); s.Waits == nil || s.Left < time.Second {
			t.Errorf("noted by hand: %+v", s)
		}
		if path, err := c.Deadlock(t.Context(), "a"); path != nil || err != nil {
			t.Errorf("the deadlock is %+v, %v", path, err)
		}
		time.Sleep(2 * time.Second)
		if now := statusOf(t, c, "a").Waits; now != nil {
			t.Errorf("without a place: %+v", now)
		}
		unlock(t, h)
		unlock(t, blocked)
	})
}

// A wait of the past, whose place is gone, is part of no deadlock.
func TestNoteWithoutPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c := newClient(t, store, nil)
		for i, crossed := range [][2]string{{"a", "b"}, {"b", "a"}} {
			h := lock(t, c, crossed[0], nil)
			note := &holdfast.Waits{Resource: crossed[1]}
			renew := func() {
				t.Helper()
				if _, err := store.Renew(t.Context(), []driver.RenewRequest{{HoldRef: refOf(h), TTL: time.Millisecond, Waits: note}}); err != nil {
					t.Fatal(err)
				}
			}
			renew()
			if path, err := c.Deadlock(t.Context(), "b"); len(path) != 2*i || err != nil {
				t.Errorf("the deadlock is %+v, %v", path, err)
			}
			if i == 1 {
				note.Place = driver.NewPlaceID()
				renew()
			}
		}
		if path, err := c.Deadlock(t.Context(), "b"); path != nil || err != nil {
			t.Errorf("the deadlock is %+v, %v", path, err)
		}
	})
}

// A shared lock under a shared one of another program passes those that wait for that
// one.
func TestSharedUnderOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, inner := newClient(t, store, nil), newClient(t, store, nil)
		h, err := c.RLock(t.Context(), "r", &holdfast.LockOptions{ForOthers: true})
		if err != nil {
			t.Fatal(err)
		}
		writer := locking(t.Context(), newClient(t, store, nil), "r", fairly("writer"))
		synctest.Wait()
		_, err = inner.TryRLock(t.Context(), "r", nil)
		mustBeHeld(t, err)
		ctx := holdfast.Under(t.Context(), refOf(h))
		if holdfast.HoldOf(ctx) != nil {
			t.Error("the hold of another program is one of ctx")
		}
		_, err = inner.TryRLock(holdfast.NotUnder(ctx), "r", nil)
		mustBeHeld(t, err)
		got, err := inner.RLock(ctx, "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, got)
		unlock(t, h)
		if r := <-writer; r.err != nil {
			t.Error(r.err)
		}
	})
}

// unrenewed is a store that answers no renewal and counts the lists.
type unrenewed struct {
	driver.Store
	renewals, lists int
}

func (u *unrenewed) Renew(context.Context, []driver.RenewRequest) ([]driver.RenewResult, error) {
	u.renewals++
	return nil, errors.New("no answer")
}

func (u *unrenewed) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	u.lists++
	return u.Store.List(ctx, f)
}

func (u *unrenewed) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return u.Store.(driver.Queue).Waiters(ctx, f)
}

// After a renewal without an answer, none of the time that is left is used to read notes.
func TestNoNotesInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unrenewed{Store: memlock.New(nil)}
		h := lock(t, newClient(t, store, nil), "r", &holdfast.LockOptions{ForOthers: true})
		<-h.Context().Done()
		if store.renewals < 5 || store.lists != 1 {
			t.Errorf("%d renewals and %d lists, want one list", store.renewals, store.lists)
		}
	})
}

// deafToLists never answers a list.
type deafToLists struct{ *memlock.Store }

func (deafToLists) List(ctx context.Context, _ driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		<-ctx.Done()
		yield(driver.Status{}, ctx.Err())
	}
}

// Holds that others work under are renewed in time, even if what is noted on them cannot
// be read.
func TestRenewedWithoutNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, deafToLists{memlock.New(nil)}, nil)
		var holds []*holdfast.Hold
		for i := range 100 {
			holds = append(holds, lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{TTL: 6 * time.Second, ForOthers: true}))
		}
		time.Sleep(time.Minute)
		for _, h := range holds {
			unlock(t, h)
		}
	})
}

// A program that is killed while it waits under the hold of another one is part of no
// deadlock, though its place and its note are there for a while.
func TestKilledWaiterIsNotStuck(t *testing.T) {
	for _, killed := range []time.Duration{time.Second, 3 * time.Second, 5 * time.Second} { // after the other began to wait
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			outer, other := newClient(t, store, nil), newClient(t, store, nil)
			a := lock(t, outer, "a", &holdfast.LockOptions{TTL: 5 * time.Minute, ForOthers: true})
			b := lock(t, other, "b", nil)
			var dead atomic.Bool // what it sends is lost from then on
			inner := newClient(t, faulty(t, store, func(drivertest.Call) drivertest.Fault {
				return drivertest.Fault{LoseRequest: dead.Load()}
			}), nil)
			waits := locking(holdfast.Under(t.Context(), refOf(a)), inner, "b", nil)
			time.Sleep(6 * time.Second) // it has noted that
			ctx, cancel := b.Bind(t.Context())
			defer cancel()
			blocked := locking(ctx, other, "a", nil)
			time.Sleep(killed)
			dead.Store(true)
			time.Sleep(20 * time.Second)
			unlock(t, a)
			r := <-blocked
			if r.err != nil {
				t.Fatalf("killed after %v: %v", killed, r.err)
			}
			unlock(t, r.hold)
			unlock(t, b)
			inner.Close()
			<-waits
		})
	}
}

// Who works under a shared hold of another program waits in turn once that hold is gone.
func TestUnderHoldThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		permit := func(fair bool) *holdfast.LockOptions { return &holdfast.LockOptions{Limit: 2, Fair: fair} }
		take := func(ctx context.Context, o *holdfast.LockOptions) (*holdfast.Hold, error) {
			return newClient(t, store, nil).RLock(ctx, "r", o)
		}
		outer, err := take(t.Context(), permit(false))
		if err != nil {
			t.Fatal(err)
		}
		other, err := take(t.Context(), permit(false))
		if err != nil {
			t.Fatal(err)
		}
		inner := running(func() (*holdfast.Hold, error) {
			return take(holdfast.Under(t.Context(), refOf(outer)), permit(true))
		})
		time.Sleep(2 * time.Second)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var others sync.WaitGroup
		for range 4 { // they keep coming
			c := newClient(t, store, nil)
			others.Go(func() {
				for {
					h, err := c.RLock(ctx, "r", permit(true))
					if err != nil {
						return
					}
					time.Sleep(100 * time.Millisecond)
					_ = h.Unlock(context.WithoutCancel(ctx))
				}
			})
		}
		time.Sleep(time.Second)
		unlock(t, outer)
		h, waited := handOver(t, other, inner)
		if waited > 5*time.Second {
			t.Errorf("served after %v", waited)
		}
		unlock(t, h)
		stop()
		others.Wait()
	})
}

// A Lock that is refused because of a hold that is gone, and then granted, has waited.
func TestWaitUnderHoldThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		permit := &holdfast.LockOptions{Limit: 2}
		take := func(ctx context.Context, c *holdfast.Client) *holdfast.Hold {
			h, err := c.RLock(ctx, "r", permit)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		outer, other := take(t.Context(), newClient(t, store, nil)), take(t.Context(), newClient(t, store, nil))
		ahead := driver.AcquireRequest{
			Resource: "r", LockID: "ahead", HoldID: driver.NewHoldID(), Mode: driver.Shared, Limit: 2, TTL: time.Minute,
			Place: driver.NewPlaceID(), Keep: time.Minute, Fair: true,
		}
		_, err := store.Acquire(t.Context(), ahead)
		mustBeHeld(t, err)
		unlock(t, outer)
		refusals := 0
		between := &nonsense{Store: store, answer: func(*holdfast.HeldError) {
			if refusals++; refusals == 1 {
				unlock(t, other)
			}
		}}
		var told []holdfast.WaitInfo
		c := newClient(t, between, &holdfast.Options{Trace: &holdfast.Trace{
			WaitEnd: func(_ context.Context, w holdfast.WaitInfo) { told = append(told, w) },
		}})
		h := take(holdfast.Under(t.Context(), refOf(outer)), c)
		synctest.Wait()
		if refusals != 1 || len(told) != 1 || told[0].Err != nil {
			t.Errorf("after %d refusals, told of %v", refusals, told)
		}
		unlock(t, h)
	})
}

// A waiter gives up, and another of its Client inherits the place: what the first one noted
// on a hold of another program is taken back, also if one request gets lost.
func TestNoteUnderOthersIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		var armed atomic.Bool
		f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{LoseRequest: c.Op == drivertest.Renew && armed.CompareAndSwap(true, false)}
		})
		c, other, inner := newClient(t, store, nil), newClient(t, store, nil), newClient(t, f, nil)
		blocked := lock(t, other, "b", nil)
		h := lock(t, c, "a", &holdfast.LockOptions{TTL: 3 * time.Second, ForOthers: true})
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(300 * time.Millisecond) // as above
		waits := locking(holdfast.Under(ctx, refOf(h)), inner, "b", fairly("impatient"))
		time.Sleep(time.Second)
		heir := locking(t.Context(), inner, "b", fairly("heir"))
		time.Sleep(6 * time.Second)
		if statusOf(t, c, "a").Waits == nil {
			t.Fatal("nothing is noted")
		}
		armed.Store(true)
		cancel()
		mustBeHeld(t, (<-waits).err)
		time.Sleep(4 * time.Second)
		if noted := statusOf(t, c, "a").Waits; noted != nil {
			t.Errorf("still noted: %+v", noted)
		}
		unlock(t, h)
		unlock(t, blocked)
		unlock(t, (<-heir).hold)
	})
}
