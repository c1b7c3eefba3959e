package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
)

func operator(*http.Request) (access.Caller, error) { return access.Operator(), nil }

func TestForceRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []server.Event
		var broken error
		s := newSite(t, nil, &server.Options{Identify: operator, Audit: func(e server.Event) error {
			events = append(events, e)
			return broken
		}})
		g := s.acquire(wire.AcquireRequest{Resource: "r", LockID: "theirs"})
		force := wire.ForceRequest{Ref: wire.Ref{Resource: "r", HoldID: g.HoldID, Token: g.Token}, Reason: "it hangs"}
		for _, change := range []func(*wire.ForceRequest){
			func(r *wire.ForceRequest) { r.Token = 0 },
			func(r *wire.ForceRequest) { r.HoldID = driver.HoldID{} },
			func(r *wire.ForceRequest) { r.Reason = " " },
			func(r *wire.ForceRequest) { r.LockID = "another" },
			func(r *wire.ForceRequest) { r.Resource = "holdfast/server" },
			func(r *wire.ForceRequest) { r.HoldID, r.Token = driver.NewHoldID(), driver.MaxToken+1 },
			func(r *wire.ForceRequest) {
				r.HoldID, r.LockID = driver.NewHoldID(), strings.Repeat("l", driver.MaxName+1)
			},
		} {
			wrong := force
			change(&wrong)
			mustBe(t, s.post(wire.ForceReleasePath, wrong), wire.KindInvalid)
		}
		broken = errors.New("disk full")
		mustBe(t, s.post(wire.ForceReleasePath, force), wire.KindUnusable)
		mustBe(t, s.post(wire.SweepPath, wire.SweepRequest{IdleMs: new(wire.Millis(1))}), wire.KindUnusable)
		// Balancers that took the server out would take renewals from everybody.
		if a := s.get("/readyz"); a.status != http.StatusOK {
			t.Errorf("readyz without an audit: %d", a.status)
		}
		broken, events = nil, nil
		stale := force
		stale.Token--
		if r := read[wire.ReleaseResult](t, s.post(wire.ForceReleasePath, stale)); r.Found || len(stored(t, s.store, "r")) != 1 {
			t.Errorf("with another token: %+v", r)
		}
		for _, found := range []bool{true, false} {
			if r := read[wire.ReleaseResult](t, s.post(wire.ForceReleasePath, force)); r.HoldID != g.HoldID || r.Outcome != wire.Released || r.Found != found {
				t.Errorf("%+v, want found: %v", r, found)
			}
		}
		outcomes := ""
		for _, e := range events {
			outcomes += e.Outcome + " "
		}
		if outcomes != "not-found allowed released not-found " {
			t.Errorf("the audit has %s", outcomes)
		}
		if e := events[1]; e.Action != "force-release" || e.Reason != "it hangs" || e.Ref != wire.RefOf(g.HoldID) || e.Outcome != "allowed" {
			t.Errorf("%+v", e)
		}
	})
}

func TestForceAndSweepAreDenied(t *testing.T) {
	s := newSite(t, nil, nil)
	g := s.acquire(wire.AcquireRequest{Resource: "r"})
	a := s.post(wire.ForceReleasePath, wire.ForceRequest{Ref: refOf(g), Reason: "why"})
	mustBe(t, a, wire.KindDenied)
	if r := read[wire.Refusal](t, a); r.Detail != `no right to force a release of "r"` {
		t.Errorf("%q", r.Detail)
	}
	mustBe(t, s.post(wire.SweepPath, wire.SweepRequest{IdleMs: new(wire.Millis(1000))}), wire.KindDenied)
}

// Nothing is done, and the audit has nothing, if the store does not say which hold is meant.
func TestForceWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{LoseRequest: c.Op == drivertest.List}
		})
		j := new(journal)
		s := newSite(t, store, &server.Options{Identify: operator, Audit: j.audit, StoreTimeout: time.Second})
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 60_000})
		f := server.Forcer{Store: store, Audit: j.audit}
		j.take()
		mustBe(t, s.post(wire.ForceReleasePath, wire.ForceRequest{Ref: refOf(g), Reason: "why"}), wire.KindUnknown)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		q := server.Force{Resource: "r", Ref: wire.RefOf(g.HoldID), Token: g.Token, Reason: "why"}
		if _, err := f.Release(ctx, nil, access.Operator(), budget.New(nil).Of("", true), q); err == nil || errors.Is(err, server.ErrForceUnknown) {
			t.Errorf("the error is %v", err)
		}
		if events, _ := j.take(); len(events) != 0 || s.renew(refOf(g), 60_000).Outcome != wire.Renewed {
			t.Errorf("%q", events)
		}
	})
}

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, &server.Options{Identify: operator})
		s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 1000})
		time.Sleep(2 * time.Second)
		a := s.post(wire.SweepPath, wire.SweepRequest{IdleMs: new(wire.Millis(60_000))})
		if r := read[wire.SweepAnswer](t, a); r.Holds != 1 || r.Records != 0 || r.More {
			t.Errorf("%+v", r)
		}
		mustBe(t, s.post(wire.SweepPath, `{"idleMs":-2}`), wire.KindInvalid)
		mustBe(t, s.post(wire.SweepPath, `{"idleMs":0}`), wire.KindInvalid)
		mustBe(t, s.post(wire.SweepPath, `{"idleMs":1,"most":-1}`), wire.KindInvalid)
		mustBe(t, s.post(wire.SweepPath, `{"idleMs":1,"most":2147483648}`), wire.KindInvalid)
	})
}
