package server_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
)

// A hold from its grant to its release.
func TestLifeOfAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 10_000, Owner: "me"})
		if g.HoldID.IsZero() || g.LockID != wire.LockIDOf(g.HoldID) || g.Token == 0 || *g.TTLMs != 10_000 || *g.SafeForMs != 9375 {
			t.Fatalf("grant %+v", g)
		}
		held := heldOf(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}))
		if *held.RetryAfterMs != 10_000 || held.Position != nil || held.Holders[0].Owner != "me" || held.Detail != `"r" is held by me` {
			t.Fatalf("refusal %+v: %+v", held, held.Held)
		}
		time.Sleep(5 * time.Second)
		if r := s.renew(refOf(g), 20_000); r.Outcome != wire.Renewed || *r.TTLMs != 20_000 || *r.SafeForMs != 18_750 {
			t.Fatalf("renewal %+v", r)
		}
		if r := s.release(refOf(g)); r.Outcome != wire.Released || !r.Found {
			t.Fatalf("release %+v", r)
		}
		if r := s.release(refOf(g)); r.Outcome != wire.Released || r.Found {
			t.Fatalf("second release %+v", r)
		}
		if r := s.renew(refOf(g), 20_000); r.Outcome != wire.Lost {
			t.Fatalf("renewal after the release: %+v", r)
		}
	})
}

// The same request again is the same hold; so it is at another server of the store.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		a, b := newSite(t, store, nil), newSite(t, store, nil)
		q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID()}
		first := a.acquire(q)
		time.Sleep(time.Second)
		again := b.acquire(q)
		if first.Token != again.Token || *again.TTLMs != 29_000 {
			t.Fatalf("first %+v, again %+v", first, again)
		}
	})
}

func TestForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: wire.Forever}), wire.KindInvalid)
		q := wire.AcquireRequest{Resource: "r", TTLMs: wire.Forever, HoldID: driver.NewHoldID()}
		for range 2 {
			if g := s.acquire(q); *g.TTLMs != wire.Forever || *g.SafeForMs != wire.Forever {
				t.Fatalf("grant %+v", g)
			}
			time.Sleep(time.Hour)
		}
	})
}

// If the answer to its acquire gets lost, a hold without an end has one.
func TestForeverWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := drivertest.Acquire
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{LoseRequest: c.Op == lost && lost == drivertest.Renew, LoseReply: c.Op == lost}
		})
		s := newSite(t, store, nil)
		for _, lost = range []drivertest.Op{drivertest.Acquire, drivertest.Renew} {
			q := wire.AcquireRequest{Resource: string(lost), TTLMs: wire.Forever, HoldID: driver.NewHoldID()}
			mustBe(t, s.post(wire.AcquirePath, q), wire.KindUnknown)
			if h := stored(t, store, q.Resource); len(h) != 1 || h[0].Left != 30*time.Second {
				t.Errorf("%+v", h)
			}
			lost = "" // repeated, it is the same, without an end
			if g := s.acquire(q); *g.TTLMs != wire.Forever {
				t.Errorf("%+v", g)
			}
		}
	})
}

// Two servers of a store have one ID, and so has one that is started later.
func TestStoreID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		a := newSite(t, store, nil)
		time.Sleep(24 * time.Hour)
		b := newSite(t, store, nil)
		id := a.get(wire.TraitsPath).header.Get(wire.StoreHeader)
		if len(id) != 24 || id != b.get("/healthz").header.Get(wire.StoreHeader) {
			t.Fatalf("IDs %q and %q", id, b.get("/healthz").header)
		}
		if c := newSite(t, nil, nil); c.get("/readyz").header.Get(wire.StoreHeader) == id {
			t.Error("two stores have one ID")
		}
		if a := a.get(wire.HoldsPath); len(read[wire.HoldList](t, a).Holds) != 0 || strings.Contains(string(a.body), id) {
			t.Errorf("the list shows it: %s", a.body)
		}
		mustBe(t, a.post(wire.AcquirePath, wire.AcquireRequest{Resource: "holdfast/server"}), wire.KindInvalid)
	})
}

// If the ID is gone, nothing more is granted, but holders may go on.
func TestStoreIDIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		id := stored(t, s.store, "holdfast/server")[0]
		if _, err := s.store.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: id.Ref()}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		mustBe(t, s.get("/readyz"), wire.KindUnknown)
		mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "other"}), wire.KindUnknown)
		if r := s.renew(refOf(g), 0); r.Outcome != wire.Renewed {
			t.Errorf("renewal %+v", r)
		}
	})
}

func TestPaths(t *testing.T) {
	s := newSite(t, nil, nil)
	for path, want := range map[string]wire.Kind{
		"/": wire.KindNotFound, "/v1/acquire/": wire.KindNotFound, "//v1/acquire": wire.KindNotFound,
		"/v1/../v1/acquire": wire.KindNotFound, "/v1%2Facquire": wire.KindNotFound, "/V1/acquire": wire.KindNotFound,
		"/v1/acquire": wire.KindMethod,
	} {
		a := s.get(path)
		mustBe(t, a, want)
		if a.header.Get("Location") != "" {
			t.Errorf("%s is redirected", path)
		}
	}
	mustBe(t, s.post(wire.HoldsPath, "{}"), wire.KindMethod)
	for _, path := range []string{wire.AcquirePath, wire.RenewPath, wire.ReleasePath, wire.ForceReleasePath, wire.SweepPath} {
		mustBe(t, s.post(path+"?limit=3", "{}"), wire.KindInvalid)
	}
	mustBe(t, s.get(wire.TraitsPath+"?a"), wire.KindInvalid)
	for _, path := range []string{wire.HoldsPath, wire.WaitersPath, wire.WatchPath} {
		mustBe(t, s.get(path+"?a=b"), wire.KindInvalid)
	}
	if a := s.get("/readyz?at=17"); a.status != http.StatusOK {
		t.Errorf("a probe with a parameter: %d", a.status)
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml"} {
		if a := s.get(path); a.status != http.StatusOK || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
	}
}
