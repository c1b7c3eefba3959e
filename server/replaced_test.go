package server_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/health"
)

// address is a store at an address where another one can be put.
type address struct {
	mu    sync.Mutex
	store driver.Store
	err   error         // of all calls, if it is not nil
	gate  chan struct{} // if it is not nil, renewals are answered once it is closed
}

func (a *address) put(store driver.Store, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store, a.err = store, err
}

// close keeps the answers of renewals back until the channel is closed.
func (a *address) close() chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gate = make(chan struct{})
	return a.gate
}

func (a *address) at() (driver.Store, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.store, a.err
}

func (a *address) Traits() driver.Traits { return memlock.New(nil).Traits() }
func (a *address) Close() error          { return nil }

func (a *address) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	store, err := a.at()
	if err != nil {
		return driver.Grant{}, err
	}
	return store.Acquire(ctx, q)
}

func (a *address) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	store, err := a.at()
	a.mu.Lock()
	gate := a.gate
	a.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if err != nil {
		return nil, err
	}
	return store.Renew(ctx, qs)
}

func (a *address) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	store, err := a.at()
	if err != nil {
		return nil, err
	}
	return store.Release(ctx, qs)
}

func (a *address) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	store, err := a.at()
	if err != nil {
		return func(yield func(driver.Status, error) bool) { yield(driver.Status{}, err) }
	}
	return store.List(ctx, f)
}

func (a *address) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	store, err := a.at()
	if err != nil {
		return func(yield func(driver.Place, error) bool) { yield(driver.Place{}, err) }
	}
	return driver.Waiters(ctx, store, f)
}

func (a *address) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	store, err := a.at()
	if err != nil {
		return driver.SweepResult{}, err
	}
	return store.Sweep(ctx, q)
}

// newAddress serves a store at an address where another one can be put.
func newAddress(t *testing.T, opts server.Options) (*site, *address) {
	a := new(address)
	a.put(memlock.New(nil), nil)
	return newSite(t, a, &opts), a
}

var errDown = errors.New("dial tcp: connection refused: hunter2")

// mustRefuse checks that the server says to everybody why it grants nothing.
func (s *site) mustRefuse(log *health.Log, level health.Level, says string) {
	s.t.Helper()
	if state := log.Now(); state.Level != level {
		s.t.Errorf("%v, want %v", state.Level, level)
	}
	for _, a := range []answer{
		s.get("/readyz"), s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "other"}),
		s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "other", WaitMs: 5000}),
		s.get(wire.HoldsPath + "?resource=other"), s.get(wire.WaitersPath), s.post(wire.SweepPath, wire.SweepRequest{IdleMs: new(wire.Millis(1000))}),
		s.post(wire.ForceReleasePath, wire.ForceRequest{Ref: wire.Ref{Resource: "other", HoldID: driver.NewHoldID(), Token: 1}, Reason: "why"}),
	} {
		mustBe(s.t, a, wire.KindUnknown)
		if r := read[wire.Refusal](s.t, a); !strings.Contains(r.Detail, says) || strings.Contains(r.Detail, "hunter2") {
			s.t.Errorf("%q does not say %q", r.Detail, says)
		}
	}
}

// Another store at the address stops all grants within 10 s. It says how long to wait.
// What comes back is served again.
func TestStoreIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		longest func() (time.Duration, bool)
		says    string
	}{
		"nobody knows": {nil, "wait for the longest TTL that your programs ask for, or stop all holders (holds without"},
		"auth file":    {func() (time.Duration, bool) { return time.Hour, false }, "wait for 59 min 50 s more, until the longest TTL of the auth file is over, or stop all holders; then"},
		"forever":      {func() (time.Duration, bool) { return time.Hour, true }, "stop all holders (holds without an end"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := health.New()
				s, at := newAddress(t, server.Options{Health: log, LongestTTL: c.longest})
				g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
				old, empty := at.store, memlock.New(nil)
				at.put(empty, nil)
				if _, err := empty.Acquire(t.Context(), driver.AcquireRequest{
					Resource: "other", LockID: "x", HoldID: driver.NewHoldID(), TTL: time.Hour,
				}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				time.Sleep(10 * time.Second)
				s.mustRefuse(log, health.Replaced, "has lost its data: that was seen 10 s ago")
				s.mustRefuse(log, health.Replaced, c.says)
				if r := s.renew(refOf(g), 600_000); r.Outcome != wire.Lost {
					t.Errorf("renewal %+v", r)
				}
				at.put(old, nil)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if a := s.get("/readyz"); a.status != 200 || log.Now().Level != health.OK {
					t.Errorf("%d, %v", a.status, log.Now().Level)
				}
				s.acquire(wire.AcquireRequest{Resource: "other"})
			})
		})
	}
}

// A store that comes back empty after an outage grants nothing, neither to who asks at that
// moment nor to who has waited.
func TestStoreComesBackEmpty(t *testing.T) {
	for _, outage := range []time.Duration{2 * time.Second, 9900 * time.Millisecond, 15 * time.Second} {
		t.Run(fmt.Sprint(outage), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := health.New()
				s, at := newAddress(t, server.Options{Health: log})
				s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
				time.Sleep(time.Second)
				waits := s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r", WaitMs: 25_000})
				synctest.Wait()
				at.put(nil, errDown)
				mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}), wire.KindUnknown)
				time.Sleep(outage)
				at.put(memlock.New(nil), nil)
				mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}), wire.KindUnknown)
				s.mustRefuse(log, health.Replaced, "has lost its data")
				if a := <-waits; a.status == 200 {
					t.Errorf("granted: %s", a.body)
				}
			})
		})
	}
}

// Who asks such a store first is not told that the resource is free.
func TestStoreComesBackEmptyForAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at := newAddress(t, server.Options{})
		s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		time.Sleep(2 * time.Second)
		at.put(nil, errDown)
		mustBe(t, s.get(wire.HoldsPath+"?resource=r"), wire.KindUnknown)
		at.put(memlock.New(nil), nil)
		mustBe(t, s.get(wire.HoldsPath+"?resource=r"), wire.KindUnknown)
	})
}

// Nothing is granted between a call that failed and the look after it, also if one that began
// before ends meanwhile.
func TestStoreBlinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, at := newAddress(t, server.Options{})
		time.Sleep(time.Second)
		gate := at.close()
		at.put(nil, errDown)
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}), wire.KindUnknown)
		synctest.Wait()
		at.put(memlock.New(nil), nil)
		after := s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r"})
		synctest.Wait()
		close(gate)
		mustBe(t, <-after, wire.KindUnknown)
	})
}

// A renewal of a hold that should be there, but is not, shows it within a second.
func TestLostRenewalShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := health.New()
		s, at := newAddress(t, server.Options{Health: log})
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		at.put(memlock.New(nil), nil)
		if r := s.renew(refOf(g), 600_000); r.Outcome != wire.Lost {
			t.Fatalf("renewal %+v", r)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s.mustRefuse(log, health.Replaced, "has lost its data")
	})
}

// Where the hold of the ID alone is not answered, as behind a shard that is down, nothing is
// granted after a call has failed: it could be another store. However many calls fail, the server
// looks at the ID once a second at most, unless a grant waits for it.
func TestIDIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		var down atomic.Pointer[drivertest.Fault]
		down.Store(new(drivertest.Fault))
		store := drivertest.NewFaultStore(memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			switch {
			case len(c.Refs) == 0:
			case c.Refs[0].Resource == "holdfast/server" && c.Op == drivertest.Renew:
				looks.Add(1)
				return *down.Load()
			case c.Refs[0].Resource == "fails":
				return drivertest.Fault{LoseRequest: true}
			}
			return drivertest.Fault{}
		})
		t.Cleanup(func() { _ = store.Close() })
		log := health.New()
		s := newSite(t, store, &server.Options{Health: log})
		time.Sleep(time.Minute)
		if n := looks.Swap(0); n < 6 || n > 7 {
			t.Errorf("%d looks in a minute", n)
		}
		for range 600 {
			mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "fails"}), wire.KindUnknown)
			time.Sleep(10 * time.Millisecond)
		}
		if n := looks.Load(); n < 5 || n > 7 {
			t.Errorf("%d looks in 6 s", n)
		}
		for name, how := range map[string]drivertest.Fault{"lost": {LoseRequest: true}, "silent": {HoldRequest: make(chan struct{})}} {
			down.Store(&how)
			time.Sleep(20 * time.Second)
			looks.Store(0)
			mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: name}), wire.KindUnknown)
			if n := looks.Load(); n < 2 || n > 600 {
				t.Errorf("%s: %d looks for one grant", name, n)
			}
			if state := log.Now(); state.Level != health.Failing {
				t.Errorf("%s: %v, %s", name, state.Level, state.Says())
			}
			down.Store(new(drivertest.Fault))
			time.Sleep(6 * time.Second)
			began := time.Now()
			s.acquire(wire.AcquireRequest{Resource: name + " again"})
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: granted after %v", name, took)
			}
		}
	})
}

// A store that refuses all acquires, or answers none, is not well, whatever it says to others.
func TestAcquiresAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := health.New()
		unusable := fmt.Errorf("%w: out of memory: hunter2", driver.ErrUnusable)
		s := newSite(t, faulty(t, attempts(func(int) drivertest.Fault { return drivertest.Fault{LoseRequest: true, Err: unusable} })),
			&server.Options{Health: log})
		if log.Now().Level != health.OK {
			t.Fatal(log.Now().Level)
		}
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}), wire.KindUnusable)
		for range 5 {
			if a := s.get(wire.HoldsPath); a.status != 200 {
				t.Fatal(a.status)
			}
			if state := log.Now(); state.Level != health.Failing || !strings.Contains(state.Says(), "No acquire") || strings.Contains(state.Says(), "hunter2") {
				t.Errorf("%+v: %s", state, state.Says())
			}
			time.Sleep(time.Minute)
		}
		if a := s.get("/readyz"); a.status != 200 {
			t.Errorf("readyz: %d", a.status)
		}
	})
}

// refusing is a store that answers renewals, each by that it cannot be used.
type refusing struct{ driver.Store }

func (r refusing) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if qs[0].Resource == "holdfast/server" {
		return r.Store.Renew(ctx, qs)
	}
	rs := make([]driver.RenewResult, len(qs))
	for i := range rs {
		rs[i].Err = fmt.Errorf("%w: it is read-only: hunter2", driver.ErrUnusable)
	}
	return rs, nil
}

func TestRenewalsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := health.New()
		s := newSite(t, refusing{memlock.New(nil)}, &server.Options{Health: log})
		g := s.acquire(wire.AcquireRequest{Resource: "r"})
		if r := s.renew(refOf(g), 30_000); r.Outcome != wire.Outcome(wire.KindUnusable) {
			t.Fatalf("%+v", r)
		}
		s.acquire(wire.AcquireRequest{Resource: "other"})
		if state := log.Now(); state.Level != health.Failing || !strings.Contains(state.Says(), "No renewal has been answered") || strings.Contains(state.Says(), "hunter2") {
			t.Errorf("%+v: %s", state, state.Says())
		}
	})
}

// A store that fails for a moment and comes back empty grants nothing, whenever that is: soon after
// a look, while a look is under way, or while looks hang.
func TestStoreBlinksAndIsEmpty(t *testing.T) {
	down := func(s *site, at *address) {
		s.t.Helper()
		at.put(nil, errDown)
		mustBe(s.t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "x"}), wire.KindUnknown)
	}
	acquire := wire.AcquireRequest{Resource: "r", TTLMs: 600_000}
	for _, after := range []time.Duration{100 * time.Millisecond, 990 * time.Millisecond, 10*time.Second - time.Millisecond, 10*time.Second + 200*time.Millisecond} {
		t.Run("after "+after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, at := newAddress(t, server.Options{})
				s.acquire(acquire)
				time.Sleep(after)
				synctest.Wait()
				down(s, at)
				at.put(memlock.New(nil), nil)
				mustBe(t, s.post(wire.AcquirePath, acquire), wire.KindUnknown)
			})
		})
	}
	t.Run("a waiter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, at := newAddress(t, server.Options{})
			s.acquire(acquire)
			time.Sleep(9 * time.Second)
			waits := acquire
			waits.WaitMs = 20_000
			answered := s.posting(t.Context(), wire.AcquirePath, waits)
			time.Sleep(1100 * time.Millisecond)
			down(s, at)
			time.Sleep(150 * time.Millisecond)
			at.put(memlock.New(nil), nil)
			mustBe(t, <-answered, wire.KindUnknown)
		})
	})
	t.Run("a look that began before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, at := newAddress(t, server.Options{})
			s.acquire(acquire)
			time.Sleep(9 * time.Second)
			synctest.Wait()
			gate := at.close() // the look has asked the old store, and is answered late
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			down(s, at)
			close(gate)
			synctest.Wait()
			at.put(memlock.New(nil), nil)
			mustBe(t, s.post(wire.AcquirePath, acquire), wire.KindUnknown)
		})
	})
	t.Run("looks that hang", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			at, hang := new(address), false
			at.put(memlock.New(nil), nil)
			s := newSite(t, hanging{at, &hang}, nil)
			s.acquire(acquire)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			hang = true
			down(s, at)
			time.Sleep(7 * time.Second)
			at.put(memlock.New(nil), nil)
			mustBe(t, s.post(wire.AcquirePath, acquire), wire.KindUnknown)
		})
	})
}

// A caller whose calls always run into its own time limit neither hides an outage nor slows down
// the grants of others.
func TestOneCallerHasNoTime(t *testing.T) {
	for k := range 20 {
		synctest.Test(t, func(t *testing.T) {
			at := new(address)
			at.put(memlock.New(nil), nil)
			s := newSite(t, hangsOne{at}, nil)
			s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ctx.Err() == nil {
					s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "bad"}, wire.TimeoutHeader, "20")
					time.Sleep(30 * time.Millisecond)
				}
			}()
			time.Sleep(20*time.Second + time.Duration(k)*173*time.Millisecond)
			began := time.Now()
			s.acquire(wire.AcquireRequest{Resource: "other"})
			if took := time.Since(began); took > 0 {
				t.Errorf("another caller has waited for %v", took)
			}
			at.put(nil, errDown)
			s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "x"})
			time.Sleep(150 * time.Millisecond)
			at.put(memlock.New(nil), nil)
			mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 600_000}), wire.KindUnknown)
			stop()
			<-done
		})
	}
}

// hanging does not answer renewals while hangs.
type hanging struct {
	*address
	hangs *bool
}

func (h hanging) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if *h.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return h.address.Renew(ctx, qs)
}

// hangsOne never answers an acquire of "bad".
type hangsOne struct{ *address }

func (f hangsOne) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if q.Resource == "bad" {
		<-ctx.Done()
		return driver.Grant{}, ctx.Err()
	}
	return f.address.Acquire(ctx, q)
}
