package server_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
)

// 50 holders and 50 waiters go to another server as the first one ends: none is lost, and
// none is told that its resource is held.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		first, second := newSite(t, store, nil), newSite(t, store, nil)
		const n = 50
		var grants []wire.Grant
		for range n {
			grants = append(grants, first.acquire(wire.AcquireRequest{Resource: driver.NewHoldID().String(), TTLMs: 10_000}))
		}
		type wait struct {
			q wire.AcquireRequest
			a <-chan answer
		}
		var waits []wait
		for i := range n {
			q := wire.AcquireRequest{Resource: grants[i].Resource, HoldID: driver.NewHoldID(), WaitMs: 25_000, Fair: i%2 == 0}
			waits = append(waits, wait{q, first.posting(t.Context(), wire.AcquirePath, q)})
		}
		synctest.Wait()
		first.Drain()
		mustBe(t, first.get("/readyz"), wire.KindDraining)
		if a := first.get("/healthz"); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
		// Everything goes on.
		time.Sleep(4 * time.Second)
		for _, g := range grants {
			if r := first.renew(refOf(g), 10_000); r.Outcome != wire.Renewed {
				t.Fatalf("%+v", r)
			}
		}
		first.EndWaits()
		for i, w := range waits {
			a := <-w.a
			mustBe(t, a, wire.KindDraining)
			if a.header.Get("Retry-After") != "0" {
				t.Errorf("%v", a.header)
			}
			waits[i].a = second.posting(t.Context(), wire.AcquirePath, w.q)
		}
		mustBe(t, first.post(wire.AcquirePath, wire.AcquireRequest{Resource: "x", WaitMs: 1}), wire.KindDraining)
		mustBe(t, first.get(wire.WatchPath+"?resource=x"), wire.KindDraining)
		// Renewals and releases are served to the last.
		time.Sleep(4 * time.Second)
		for i, g := range grants {
			if r := first.renew(refOf(g), 10_000); r.Outcome != wire.Renewed {
				t.Fatalf("%+v", r)
			}
			if r := first.release(refOf(g)); !r.Found {
				t.Fatalf("%+v", r)
			}
			grantOf(t, <-waits[i].a)
		}
	})
}

// An attempt that is under way when waits end may be granted: then that is the answer.
func TestDrainDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, faulty(t, answersLate(3*time.Second)), nil)
		a := s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 20_000})
		time.Sleep(time.Second)
		s.EndWaits()
		grantOf(t, <-a)
	})
}

// One whose last attempt had no answer is not told that it was not applied.
func TestDrainAfterAnUnknownAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *site
		s = newSite(t, faulty(t, attempts(func(int) drivertest.Fault {
			s.EndWaits()
			return drivertest.Fault{LoseReply: true}
		})), nil)
		a := s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 20_000})
		mustBe(t, a, wire.KindUnknown)
		if a.header.Get("Retry-After") != "0" {
			t.Errorf("%v", a.header)
		}
	})
}

// late is a server of a store that is not ready yet, and is asked without a connection.
func late(t *testing.T) (*site, *lateStore) {
	t.Helper()
	store := &lateStore{Store: memlock.New(nil)}
	s, err := server.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &site{Server: s, t: t, http: &http.Client{Transport: direct{s}}}, store
}

// Before the store is ready nothing is answered but that.
func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := late(t)
		for _, a := range []answer{
			s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}), s.post(wire.RenewPath, "{}"), s.get(wire.HoldsPath), s.get(wire.TraitsPath), s.get("/readyz"),
		} {
			mustBe(t, a, wire.KindUnknown)
			if a.header.Get(wire.StoreHeader) != "" {
				t.Errorf("%v", a.header)
			}
		}
		began := time.Now()
		mustBe(t, s.get(wire.TraitsPath, wire.TimeoutHeader, "100"), wire.KindUnknown)
		if waited := time.Since(began); waited != 100*time.Millisecond {
			t.Errorf("who has 100 ms waits for %v", waited)
		}
		if a := s.get("/healthz"); a.status != http.StatusOK {
			t.Errorf("%d", a.status)
		}
		store.setReady()
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.acquire(wire.AcquireRequest{Resource: "r"})
		// A store that blinks does not make the server unready.
		store.setDown()
		time.Sleep(5 * time.Minute)
		if a := s.get("/readyz"); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// The first request of a server that was started for it waits until the store is prepared.
func TestFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := late(t)
		began := time.Now()
		const ready = 300 * time.Millisecond // the pauses between looks grow
		time.AfterFunc(ready, store.setReady)
		a := s.get(wire.TraitsPath)
		if took := time.Since(began); a.status != http.StatusOK || a.header.Get(wire.StoreHeader) == "" || took < ready || took >= 3*time.Second {
			t.Errorf("%d %s after %v", a.status, a.body, took)
		}
	})
}
