package server_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
)

// A fair waiter whose wait has ended, and who comes to another server, is the next there,
// too, however many stand there already: it is the first in the store's queue.
func TestFairWaiterComesToAnotherServer(t *testing.T) {
	for _, there := range []int{1, 5, 16, 17, 40} {
		for _, fair := range []bool{true, false} {
			t.Run(fmt.Sprintf("there=%d,fair=%v", there, fair), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memlock.New(nil)
					a, b := newSite(t, store, nil), newSite(t, store, nil)
					g := a.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
					q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 5000, Fair: true}
					first := a.posting(t.Context(), wire.AcquirePath, q)
					synctest.Wait()
					waits, _ := b.line(there, wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Fair: fair})
					heldOf(t, <-first)
					q.WaitMs = 15_000
					again := []<-chan answer{b.posting(t.Context(), wire.AcquirePath, q)}
					synctest.Wait()
					b.release(refOf(g))
					served, grants := granted(t, again)
					if len(served) != 1 {
						t.Fatal("the first of the queue was not served at once")
					}
					for i := range waits { // then the others, as they came
						b.release(refOf(grants[0]))
						if served, grants = granted(t, waits); !slices.Equal(served, []int{i}) {
							t.Fatalf("then %v were served, want %d", served, i)
						}
					}
				})
			})
		}
	}
}

// So are all that come from a server that ends, in the order of the store, wherever that is,
// also if the other server cannot read the queue at first.
func TestLineComesToAnotherServer(t *testing.T) {
	for _, looksLost := range []bool{false, true} {
		t.Run(fmt.Sprint("looksLost=", looksLost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lost atomic.Bool
				store := memlock.New(nil)
				a, b := newSite(t, store, nil), newSite(t, faultyOf(t, store, func(c drivertest.Call) drivertest.Fault {
					return drivertest.Fault{LoseRequest: c.Op == drivertest.List && lost.Load()}
				}), nil)
				g := a.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
				q := wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Fair: true}
				old, ids := a.line(12, q)
				waits, _ := b.line(20, wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Fair: !looksLost}) // fair ones would look, too
				a.EndWaits()
				for _, w := range old {
					mustBe(t, <-w, wire.KindDraining)
				}
				lost.Store(looksLost)
				var moved []<-chan answer
				for _, i := range rand.Perm(len(ids)) {
					q.HoldID = ids[i]
					ids[i] = driver.HoldID{}
					moved = append(moved, b.posting(t.Context(), wire.AcquirePath, q))
					synctest.Wait()
					ids[i] = q.HoldID
				}
				if lost.Swap(false) {
					time.Sleep(driver.FairPlaceTTL) // those that did not look again would have lost their places
				}
				var order []driver.HoldID
				for range ids {
					b.release(refOf(g))
					served, grants := granted(t, moved)
					if len(served) != 1 {
						t.Fatalf("%v were served", served)
					}
					g = grants[0]
					order = append(order, g.HoldID)
				}
				if !slices.Equal(order, ids) {
					t.Errorf("served in the order %v, want %v", order, ids)
				}
				b.release(refOf(g))
				if served, _ := granted(t, waits); !slices.Equal(served, []int{0}) {
					t.Errorf("then %v were served", served)
				}
			})
		})
	}
}

// A fair waiter that does not come back keeps a free lock from the others for no longer than
// one that is killed.
func TestFairWaiterDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		a, b := newSite(t, store, nil), newSite(t, store, nil)
		g := a.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		gone := a.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 6000, Fair: true})
		synctest.Wait()
		waits, _ := b.line(2, wire.AcquireRequest{Resource: "r", WaitMs: 25_000, Fair: true})
		heldOf(t, <-gone)
		b.release(refOf(g))
		began := time.Now()
		grantOf(t, <-waits[0])
		if took := time.Since(began); took < 7*time.Second || took > 10100*time.Millisecond {
			t.Errorf("the next one was served after %v", took)
		}
		heldOf(t, <-waits[1])
	})
}

// The lock is not free while somebody waits, although callers choose the server of each
// request by chance.
func TestServersByChance(t *testing.T) {
	for _, test := range []struct{ callers, fair, servers int }{{8, 100, 2}, {30, 100, 2}, {30, 30, 2}, {30, 0, 2}, {60, 100, 3}} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := drivertest.NewFaultStore(memlock.New(nil), func(drivertest.Call) drivertest.Fault { return drivertest.Fault{} })
				var sites []*site
				for range test.servers {
					sites = append(sites, newSite(t, store, nil))
				}
				var u use
				began := time.Now()
				var callers sync.WaitGroup
				for i := range test.callers {
					callers.Go(func() {
						time.Sleep(rand.N(time.Second))
						for time.Since(began) < time.Minute {
							u.once(t, sites, wire.AcquireRequest{Resource: "r", WaitMs: 20_000, Fair: i*100 < test.fair*test.callers})
						}
					})
				}
				time.Sleep(time.Minute)
				free, longest := u.free()
				t.Logf("free for %v of a minute, at most %v at a time; %d grants, %d requests of the store",
					free, longest, u.grants, store.Calls(drivertest.Acquire))
				if free > 2*time.Second || longest > time.Second {
					t.Errorf("free for %v, at most %v at a time", free, longest)
				}
				callers.Wait()
			})
		})
	}
}

// use notes when a lock is free.
type use struct {
	mu         sync.Mutex
	since      time.Time // it is free
	total, max time.Duration
	grants     int
}

// once waits for the lock and holds it for a second.
func (u *use) once(t *testing.T, sites []*site, q wire.AcquireRequest) {
	q.HoldID = driver.NewHoldID()
	for {
		s := sites[rand.N(len(sites))]
		a := s.post(wire.AcquirePath, q)
		if a.status != http.StatusOK {
			if a.kind() != wire.KindHeld {
				t.Errorf("%d %s %v", a.status, a.body, a.err)
				return
			}
			continue
		}
		g := read[wire.Grant](t, a)
		u.note(true)
		time.Sleep(time.Second)
		u.note(false)
		s.release(refOf(g))
		return
	}
}

func (u *use) note(taken bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !taken {
		u.since = time.Now()
		return
	}
	u.grants++
	if !u.since.IsZero() {
		free := time.Since(u.since)
		u.total, u.max = u.total+free, max(u.max, free)
	}
	u.since = time.Time{}
}

func (u *use) free() (total, longest time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.total, u.max
}
