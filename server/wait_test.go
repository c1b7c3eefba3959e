package server_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/budget"
)

// line sends waits for the resource one after the other, and returns their answers.
func (s *site) line(n int, q wire.AcquireRequest) (waits []<-chan answer, ids []driver.HoldID) {
	for range n {
		q.HoldID = driver.NewHoldID()
		ids = append(ids, q.HoldID)
		waits = append(waits, s.posting(s.t.Context(), wire.AcquirePath, q))
		synctest.Wait()
	}
	return waits, ids
}

// granted returns the index of the waits that have an answer.
func granted(t *testing.T, waits []<-chan answer) (all []int, grants []wire.Grant) {
	t.Helper()
	synctest.Wait()
	for i, w := range waits {
		select {
		case a := <-w:
			all, grants = append(all, i), append(grants, grantOf(t, a))
		default:
		}
	}
	return all, grants
}

func TestFirstComeFirstServed(t *testing.T) {
	for _, fair := range []bool{false, true} {
		t.Run(fmt.Sprint("fair=", fair), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, nil)
				g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 100_000})
				waits, _ := s.line(30, wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Fair: fair})
				for i := range waits {
					began := time.Now()
					s.release(refOf(g))
					served, grants := granted(t, waits)
					if !slices.Equal(served, []int{i}) {
						t.Fatalf("release %d served %v", i, served)
					}
					if took := time.Since(began); took > 0 {
						t.Errorf("the hand-over %d took %v", i, took)
					}
					g = grants[0]
					time.Sleep(100 * time.Millisecond)
				}
			})
		})
	}
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, &server.Options{MaxWait: 3 * time.Second})
		s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 100_000})
		for _, test := range []struct{ asked, waits wire.Millis }{{1, 1}, {2000, 2000}, {3001, 3000}, {wire.Forever, 3000}, {1 << 60, 3000}} {
			began := time.Now()
			held := heldOf(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", WaitMs: test.asked}))
			if took := time.Since(began); took != test.waits.Duration() || held.WaitMs != test.waits {
				t.Errorf("wait of %d ms took %v, and says %d ms", test.asked, took, held.WaitMs)
			}
			if *held.Position != 1 || len(held.Holders) != 1 {
				t.Errorf("%+v", held.Held)
			}
		}
		// The budget ends a wait, too.
		began := time.Now()
		heldOf(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", WaitMs: 3000}, wire.TimeoutHeader, "500"))
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("a wait with a budget of 500 ms took %v", took)
		}
	})
}

// A waiter with the lock ID of the hold may be the next process after the one that had it:
// nobody here knows whether that lives. It is told what it waited for.
func TestWaitWithSameLockID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 4000})
		q := wire.AcquireRequest{Resource: "r", LockID: g.LockID, Fair: true}
		began := time.Now()
		for _, wait := range []time.Duration{0, time.Second} {
			q.WaitMs = wire.MillisOf(wait)
			held := heldOf(t, s.post(wire.AcquirePath, q))
			if !held.BySelf || held.Detail != `"r" is held by the same lock ID` || time.Since(began) != wait {
				t.Errorf("after %v: %+v", time.Since(began), held)
			}
		}
		others := heldOf(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", WaitMs: 1000}))
		if others.BySelf {
			t.Errorf("another lock ID is told %+v", others)
		}
		q.WaitMs = 25_000
		s.acquire(q)
		if took := time.Since(began); took < 4*time.Second || took > 4*time.Second+5*time.Millisecond {
			t.Errorf("granted after %v", took)
		}
	})
}

// Who was told 409 and comes back with the same hold ID has not lost its turn.
func TestComingBack(t *testing.T) {
	for _, test := range []struct {
		away time.Duration
		fair bool
		want []int
	}{
		{6 * time.Second, false, []int{0, 1, 2}}, {6 * time.Second, true, []int{0, 1, 2}},
		{11 * time.Second, false, []int{1, 2, 0}}, {15 * time.Second, true, []int{1, 2, 0}},
	} {
		t.Run(fmt.Sprintf("away=%v,fair=%v", test.away, test.fair), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, nil)
				g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
				q := wire.AcquireRequest{Resource: "r", Fair: test.fair, WaitMs: 2000, HoldID: driver.NewHoldID()}
				back := q
				first := s.posting(t.Context(), wire.AcquirePath, q)
				synctest.Wait()
				q.WaitMs = 25_000
				others, _ := s.line(2, q)
				if held := heldOf(t, <-first); *held.Position != 1 {
					t.Errorf("position %d", *held.Position)
				}
				time.Sleep(test.away)
				back.WaitMs = 10_000
				waits := append([]<-chan answer{s.posting(t.Context(), wire.AcquirePath, back)}, others...)
				synctest.Wait()
				var order []int
				for range waits {
					s.release(refOf(g))
					served, grants := granted(t, waits)
					if len(served) != 1 {
						t.Fatalf("%v were served", served)
					}
					order, g = append(order, served...), grants[0]
				}
				if !slices.Equal(order, test.want) {
					t.Errorf("served in the order %v, want %v", order, test.want)
				}
			})
		})
	}
}

// Who is away keeps nobody waiting.
func TestAwayIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		q := wire.AcquireRequest{Resource: "r", WaitMs: 500, HoldID: driver.NewHoldID()}
		first := s.posting(t.Context(), wire.AcquirePath, q)
		synctest.Wait()
		waits, _ := s.line(1, wire.AcquireRequest{Resource: "r", WaitMs: 25_000})
		heldOf(t, <-first)
		s.release(refOf(g))
		if served, _ := granted(t, waits); len(served) != 1 {
			t.Fatal("the next one was not served")
		}
	})
}

func TestPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		a, b := newSite(t, store, nil), newSite(t, store, nil)
		a.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		q := wire.AcquireRequest{Resource: "r", WaitMs: 20_000, Fair: true}
		first, _ := a.line(20, q)
		time.Sleep(time.Second)
		second, _ := b.line(2, q)
		for i, w := range append(first, second...) {
			if held := heldOf(t, <-w); *held.Position != i+1 && i < 16 || held.Waiters < 18 {
				t.Errorf("waiter %d: position %d of %d", i, *held.Position, held.Waiters)
			}
		}
		list := read[wire.WaiterList](t, a.get(wire.WaitersPath+"?resource=r"))
		if len(list.Waiters) != 0 {
			t.Logf("%d places are kept", len(list.Waiters))
		}
	})
}

// The store notes the first 16 of a line in its order, if they are fair.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		plain, ids := s.line(1, wire.AcquireRequest{Resource: "r", WaitMs: 25_000})
		if len(placesOf(t, s.store, "r")) != 0 {
			t.Error("a waiter that is not fair has a place at once")
		}
		fair, more := s.line(20, wire.AcquireRequest{Resource: "r", WaitMs: 24_000, Fair: true})
		ids = append(ids, more...)
		for range 20 { // they are kept
			synctest.Wait()
			got := placesOf(t, s.store, "r")
			if len(got) != 16 {
				t.Fatalf("%d places", len(got))
			}
			for i, id := range got {
				if id != placeOf("", driver.PlaceID(ids[i])) {
					t.Fatalf("place %d is that of another", i)
				}
			}
			time.Sleep(time.Second)
		}
		for _, w := range append(plain, fair...) {
			heldOf(t, <-w)
		}
	})
}

// A place that the store has lost is taken again at the end, and the line follows the store.
func TestPlaceIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		waits, ids := s.line(3, wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Fair: true})
		lost := driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: "r", LockID: "nobody"}, Place: placeOf("", driver.PlaceID(ids[0]))}
		if _, err := s.store.Release(t.Context(), []driver.ReleaseRequest{lost}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		var order []int
		for range waits {
			began := time.Now()
			s.release(refOf(g))
			served, grants := granted(t, waits)
			if len(served) != 1 || time.Since(began) > 0 {
				t.Fatalf("%v were served", served)
			}
			order, g = append(order, served...), grants[0]
		}
		if !slices.Equal(order, []int{1, 2, 0}) {
			t.Errorf("served in the order %v", order)
		}
	})
}

// A wait may be longer than a body may take.
func TestLongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, &server.Options{MaxWait: time.Hour})
		s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		s.acquire(wire.AcquireRequest{Resource: "r", WaitMs: 3_600_000})
	})
}

// The head of a line takes a place after a second, so that others see it.
func TestPlainPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		waits, _ := s.line(3, wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Owner: "me"})
		time.Sleep(1100 * time.Millisecond)
		for range 20 {
			if list := read[wire.WaiterList](t, s.get(wire.WaitersPath)); len(list.Waiters) != 1 || list.Waiters[0].Fair {
				t.Fatalf("%+v", list)
			}
			time.Sleep(time.Second)
		}
		for _, w := range waits {
			heldOf(t, <-w)
		}
	})
}

// Fair waiters of two servers are served as they came.
func TestFairAcrossServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		sites := []*site{newSite(t, store, nil), newSite(t, store, nil)}
		g := sites[0].acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		var waits []<-chan answer
		for i := range 12 {
			more, _ := sites[i%2].line(1, wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Fair: true})
			waits = append(waits, more...)
		}
		for i := range waits {
			sites[1].release(refOf(g))
			var served []int
			var grants []wire.Grant
			for range 100 {
				if served, grants = granted(t, waits); len(served) > 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if !slices.Equal(served, []int{i}) {
				t.Fatalf("release %d served %v", i, served)
			}
			g = grants[0]
		}
	})
}

// Shared holders pass together, and no further than the first that is not.
func TestSharedPassTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		shared := wire.AcquireRequest{Resource: "r", Mode: driver.Shared, WaitMs: 25_000}
		waits, _ := s.line(5, shared)
		writer, _ := s.line(1, wire.AcquireRequest{Resource: "r", WaitMs: 25_000})
		late, _ := s.line(3, shared)
		waits = append(append(waits, writer...), late...)
		s.release(refOf(g))
		served, grants := granted(t, waits)
		if !slices.Equal(served, []int{0, 1, 2, 3, 4}) {
			t.Fatalf("%v were served", served)
		}
		for _, g := range grants {
			s.release(refOf(g))
		}
		served, grants = granted(t, waits)
		if !slices.Equal(served, []int{5}) {
			t.Fatalf("%v were served", served)
		}
		s.release(refOf(grants[0]))
		if served, _ = granted(t, waits); !slices.Equal(served, []int{6, 7, 8}) {
			t.Fatalf("%v were served", served)
		}
	})
}

// They pass at the same time, more with each grant, and not one after the other.
func TestSharedPassAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, faulty(t, answersLate(100*time.Millisecond)), nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		const n = 30
		waits, _ := s.line(n, wire.AcquireRequest{Resource: "r", Mode: driver.Shared, WaitMs: 25_000})
		time.Sleep(time.Second)
		began := time.Now()
		s.release(refOf(g))
		for _, w := range waits {
			grantOf(t, <-w)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%d took %v", n, took)
		}
	})
}

// A semaphore gives as many as there is room for.
func TestPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		q := wire.AcquireRequest{Resource: "r", Mode: driver.Shared, Limit: 3, WaitMs: 25_000, TTLMs: 600_000}
		waits, _ := s.line(10, q)
		served, grants := granted(t, waits)
		for n := 3; ; n++ {
			if len(served) != n {
				t.Fatalf("%d were served, want %d", len(served), n)
			}
			if n == 10 {
				break
			}
			s.release(refOf(grants[n-3]))
			more, moreGrants := granted(t, waits)
			served, grants = append(served, more...), append(grants, moreGrants...)
		}
	})
}

// A request that repeats one which was granted is answered, although others stand in line
// for its very hold.
func TestRepeatPassesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		q := wire.AcquireRequest{Resource: "r", TTLMs: 600_000, HoldID: driver.NewHoldID(), WaitMs: 20_000, Fair: true}
		g := s.acquire(q)
		waits, _ := s.line(20, wire.AcquireRequest{Resource: "r", WaitMs: 20_000, Fair: true})
		if again := s.acquire(q); again.Token != g.Token {
			t.Errorf("%+v, before %+v", again, g)
		}
		for _, w := range waits {
			heldOf(t, <-w)
		}
	})
}

// Of two requests with one hold ID at once, the second waits, and the first is told that
// it does not know the outcome. There is one hold.
func TestSameHoldIDTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r"})
		q := wire.AcquireRequest{Resource: "r", WaitMs: 20_000, HoldID: driver.NewHoldID()}
		first := s.posting(t.Context(), wire.AcquirePath, q)
		synctest.Wait()
		others, _ := s.line(1, wire.AcquireRequest{Resource: "r", WaitMs: 25_000})
		second := s.posting(t.Context(), wire.AcquirePath, q)
		mustBe(t, <-first, wire.KindUnknown)
		s.release(refOf(g))
		got := grantOf(t, <-second)
		if holds := stored(t, s.store, "r"); len(holds) != 1 || holds[0].Token != got.Token {
			t.Errorf("%+v", holds)
		}
		if served, _ := granted(t, others); len(served) != 0 {
			t.Error("the second lost its turn")
		}
		s.release(refOf(got))
		grantOf(t, <-others[0])
	})
}

// Two at once whose attempts are both under way may both be told of the grant.
func TestSameHoldIDBothUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty(t, answersLate(time.Second))
		s := newSite(t, store, nil)
		q := wire.AcquireRequest{Resource: "r", WaitMs: 20_000, HoldID: driver.NewHoldID()}
		first, second := s.posting(t.Context(), wire.AcquirePath, q), s.posting(t.Context(), wire.AcquirePath, q)
		a, b := grantOf(t, <-first), grantOf(t, <-second)
		if a.Token != b.Token || len(stored(t, store, "r")) != 1 {
			t.Errorf("%+v and %+v", a, b)
		}
	})
}

// A request is replaced by one with the same hold ID while its attempt is under way. If that
// attempt is granted later, the second gets the grant at once. If the hold ID was released in
// between, nothing is left.
func TestReplacedAndGranted(t *testing.T) {
	for _, released := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			arrives, first := make(chan struct{}), true
			q := wire.AcquireRequest{Resource: "r", LockID: "l", TTLMs: 300_000, WaitMs: 20_000, HoldID: driver.NewHoldID()}
			store := faulty(t, func(c drivertest.Call) (f drivertest.Fault) {
				if c.Op == drivertest.Acquire && c.Refs[0].HoldID == q.HoldID && first {
					first, f.HoldRequest = false, arrives
				}
				return f
			})
			s := newSite(t, store, nil)
			g := s.acquire(wire.AcquireRequest{Resource: "r"})
			one := s.posting(t.Context(), wire.AcquirePath, q)
			synctest.Wait()
			other := s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r", LockID: "o", WaitMs: 100})
			<-other
			two := s.posting(t.Context(), wire.AcquirePath, q)
			synctest.Wait()
			ref := wire.Ref{Resource: "r", LockID: "l", HoldID: q.HoldID}
			if released {
				s.release(ref)
			}
			s.release(refOf(g))
			close(arrives)
			began := time.Now()
			<-one
			<-two
			if took := time.Since(began); took > time.Second {
				t.Errorf("the second waited %v", took)
			}
			time.Sleep(20 * time.Second)
			if holds := stored(t, store, "r"); released == (len(holds) > 0) {
				t.Errorf("released %v: the store has %+v", released, holds)
			}
		})
	}
}

// The place of a wait goes with the release also if the server has forgotten the wait, or
// another one had it.
func TestReleaseOfAPlaceThatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		other bool
	}{"by the same server": {time.Second, false}, "after its turn": {7500 * time.Millisecond, false}, "by another server": {time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, nil)
				s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
				q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 2000, Fair: true}
				heldOf(t, s.post(wire.AcquirePath, q))
				time.Sleep(c.after)
				if n := len(placesOf(t, s.store, "r")); n != 1 {
					t.Fatalf("%d places are kept", n)
				}
				by := s
				if c.other {
					by = newSite(t, s.store, nil)
				}
				by.release(wire.Ref{Resource: "r", HoldID: q.HoldID})
				if n := len(placesOf(t, s.store, "r")); n != 0 {
					t.Error("the place is still there")
				}
			})
		})
	}
}

func TestTooManyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := map[budget.Stock]budget.Share{budget.Acquires: {Caller: 2, All: 3}, budget.Watches: {Caller: 1, All: 2}}
		s := newSite(t, nil, &server.Options{Identify: newPeople().identify, Budget: budget.New(&budget.Options{Shares: shares})})
		q := wire.AcquireRequest{Resource: "r", WaitMs: 20_000, HoldID: driver.NewHoldID(), TTLMs: 600_000}
		g := grantOf(t, s.as("alice", wire.AcquirePath, q))
		waits := make([]<-chan answer, 2)
		for i := range waits {
			q.HoldID = driver.NewHoldID()
			waits[i] = s.posting(t.Context(), wire.AcquirePath, q, "Who", "alice")
			synctest.Wait()
		}
		q.HoldID = driver.NewHoldID()
		a := s.as("alice", wire.AcquirePath, q)
		mustBe(t, a, wire.KindBusy)
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("%v", a.header)
		}
		_, stop := s.eventsAs(wire.WatchPath+"?resource=r", "alice")
		defer stop()
		mustBe(t, s.get(wire.WatchPath+"?resource=r", "Who", "alice"), wire.KindBusy)
		// Others are not concerned, and renewals and releases are not.
		heldOf(t, s.as("bob", wire.AcquirePath, wire.AcquireRequest{Resource: "r"}))
		if a := s.as("alice", wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: refOf(g)}}}); a.status != 200 {
			t.Errorf("a renewal: %d", a.status)
		}
		s.as("alice", wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: refOf(g)}}})
		g = grantOf(t, <-waits[0])
		s.as("alice", wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: refOf(g)}}})
		grantOf(t, <-waits[1])
	})
}

// Stores without signals or a queue make waits slower, not wrong.
func TestPollingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := plainStore{memlock.New(nil)}
		s := newSite(t, store, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		waits, _ := s.line(3, wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Fair: true})
		for i := range waits {
			time.Sleep(time.Second)
			s.release(refOf(g))
			time.Sleep(800 * time.Millisecond)
			served, grants := granted(t, waits)
			if !slices.Equal(served, []int{i}) {
				t.Fatalf("release %d served %v", i, served)
			}
			g = grants[0]
		}
		mustBe(t, s.get(wire.WatchPath+"?resource=r"), wire.KindUnsupported)
		mustBe(t, s.get(wire.WaitersPath), wire.KindUnsupported)
	})
}

// plainStore neither notifies nor keeps a queue.
type plainStore struct{ driver.Store }

func (s plainStore) Traits() driver.Traits {
	t := s.Store.Traits()
	t.Notifies, t.Queue = false, false
	return t
}

func (s plainStore) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	q.Place = driver.PlaceID{}
	return s.Store.Acquire(ctx, q)
}

// A lost signal costs at most one look-out, and a watch that fails a little more.
func TestWatchOfALineFails(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"lost": {LoseRequest: true}, "hangs": {HoldReply: make(chan struct{})},
		"closed": {Cut: closed()}, "unsupported": {LoseRequest: true, Err: driver.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if fault.HoldReply != nil {
					fault.HoldReply = make(chan struct{})
				}
				if fault.Cut != nil {
					fault.Cut = closed()
				}
				store := faulty(t, func(c drivertest.Call) drivertest.Fault {
					if c.Op == drivertest.Watch {
						return fault
					}
					return drivertest.Fault{}
				})
				s := newSite(t, store, nil)
				g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
				waits, _ := s.line(1, wire.AcquireRequest{Resource: "r", WaitMs: 25_000})
				time.Sleep(5 * time.Second)
				s.release(refOf(g))
				began := time.Now()
				grantOf(t, <-waits[0])
				if took := time.Since(began); took > time.Second {
					t.Errorf("granted after %v", took)
				}
			})
		})
	}
}

func closed() <-chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}
