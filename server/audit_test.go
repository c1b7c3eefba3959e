package server_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
)

// journal is an audit in memory.
type journal struct {
	mu     sync.Mutex
	events []string // action outcome caller resource
	last   server.Event
}

func (j *journal) audit(e server.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, strings.TrimSpace(strings.Join([]string{e.Action, e.Outcome, e.Caller, e.Resource}, " ")))
	j.last = e
	return nil
}

// take returns the events since it was called last.
func (j *journal) take() (events []string, last server.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	events, j.events = j.events, nil
	return events, j.last
}

// What is denied is in the audit, whatever it is: one event for each request, with how
// many of its items.
func TestAuditOfDenials(t *testing.T) {
	ps := newPeople()
	ps["bob"].may = map[access.Verb][]string{access.Lock: {"r"}}
	j := new(journal)
	s := newSite(t, nil, &server.Options{Identify: ps.identify, Audit: j.audit})
	id := driver.NewHoldID()
	mine, other := wire.Ref{Resource: "r", HoldID: id}, wire.Ref{Resource: "other", HoldID: id}
	for name, c := range map[string]struct {
		ask    func() answer
		events []string
		count  int
		hold   bool
		reason string
	}{
		"acquire": {
			func() answer {
				return s.as("bob", wire.AcquirePath, wire.AcquireRequest{Resource: "other", HoldID: id})
			},
			[]string{"acquire denied bob other"}, 1, true, `no right to lock "other"`,
		},
		"renewals": {
			func() answer {
				return s.as("bob", wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: other}, {Ref: mine}, {Ref: mine, TTLMs: wire.Forever}}})
			},
			[]string{"renew denied bob other"}, 2, true, `no right to lock "other"`,
		},
		"releases": {
			func() answer {
				return s.as("bob", wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: other}, {Ref: wire.Ref{Resource: "other"}, PlaceID: driver.NewPlaceID()}}})
			},
			[]string{"release denied bob other"}, 2, true, `no right to lock "other"`,
		},
		"force": {
			func() answer {
				return s.as("bob", wire.ForceReleasePath, wire.ForceRequest{Ref: wire.Ref{Resource: "r", HoldID: id, Token: 1}, Reason: "why"})
			},
			[]string{"force-release denied bob r"}, 1, true, "why",
		},
		"sweep": {
			func() answer { return s.as("bob", wire.SweepPath, "{}") },
			[]string{"sweep denied bob"}, 1, false, "no right to sweep, which is that to force on all resources",
		},
		"list": {
			func() answer { return s.get(wire.HoldsPath+"?resource=other", "Who", "bob") },
			[]string{"look denied bob other"}, 1, false, `no right to look at "other"`,
		},
		"watch": {
			func() answer { return s.get(wire.WatchPath+"?resource=other", "Who", "bob") },
			[]string{"look denied bob other"}, 1, false, `no right to watch "other"`,
		},
		"nobody": {
			func() answer { return s.as("nobody", wire.RenewPath, "{}") },
			[]string{"login denied"}, 1, false, access.ErrAnonymous.Error(),
		},
	} {
		if a := c.ask(); a.err != nil {
			t.Fatalf("%s: %v", name, a.err)
		}
		events, last := j.take()
		if !slices.Equal(events, c.events) || last.Count != c.count || last.Reason != c.reason || (last.Ref == wire.RefOf(id)) != c.hold {
			t.Errorf("%s: %q, the last one is %+v", name, events, last)
		}
	}
}

// What may be done although the store did not answer is in the audit. What did nothing is not.
func TestAuditOfTheUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		losing := false
		lose := func(on bool) { mu.Lock(); defer mu.Unlock(); losing = on }
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			mu.Lock()
			defer mu.Unlock()
			return drivertest.Fault{LoseReply: losing}
		})
		j := new(journal)
		s := newSite(t, store, &server.Options{Identify: operator, Audit: j.audit})
		want := func(what string, events ...string) {
			t.Helper()
			if got, _ := j.take(); !slices.Equal(got, events) {
				t.Errorf("%s: %q, want %q", what, got, events)
			}
		}
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		want("a grant", "acquire granted  r")
		for _, wait := range []wire.Millis{0, 2000} {
			heldOf(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", WaitMs: wait}))
		}
		s.renew(refOf(g), 600_000)
		want("held, and a renewal")
		lose(true)
		for _, wait := range []wire.Millis{0, 2000} {
			mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "q", HoldID: driver.NewHoldID(), WaitMs: wait}), wire.KindUnknown)
			want("an acquire without an answer", "acquire unknown  q")
		}
		mustBe(t, s.post(wire.ForceReleasePath, wire.ForceRequest{Ref: refOf(g), Reason: "why"}), wire.KindUnknown)
		want("force", "force-release allowed  r", "force-release unknown  r")
		lose(false)
		g = s.acquire(wire.AcquireRequest{Resource: "r2"})
		j.take()
		lose(true)
		s.release(refOf(g))
		want("a release", "release unknown  r2")
		mustBe(t, s.post(wire.SweepPath, "{}"), wire.KindUnknown)
		want("a sweep", "sweep allowed", "sweep unknown")
		lose(false)
		s.post(wire.SweepPath, "{}")
		want("a sweep", "sweep allowed", "sweep swept")
	})
}

// Who releases what is not there, or a place alone, has released nothing.
func TestAuditOfReleases(t *testing.T) {
	j := new(journal)
	s := newSite(t, nil, &server.Options{Audit: j.audit})
	g := s.acquire(wire.AcquireRequest{Resource: "r"})
	s.release(refOf(g))
	s.release(refOf(g))
	s.post(wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: wire.Ref{Resource: "r"}, PlaceID: driver.NewPlaceID()}}})
	if got, _ := j.take(); !slices.Equal(got, []string{"acquire granted  r", "release released  r", "release not-found  r"}) {
		t.Errorf("%q", got)
	}
}

// A caller that is denied again and again fills no disk: what it has no bytes for is counted.
func TestAuditOfManyDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, ps := new(journal), newPeople()
		ps["bob"].may = nil
		s := newSite(t, nil, &server.Options{Identify: ps.identify, Audit: j.audit})
		q := wire.RenewRequest{Holds: make([]wire.Renewal, 10)}
		for i := range q.Holds {
			q.Holds[i].Ref = wire.Ref{Resource: strings.Repeat("\x01", driver.MaxName), HoldID: driver.NewHoldID()}
		}
		for range 100 {
			s.as("carol", wire.RenewPath, q)
			s.as("carol", wire.ReleasePath, q)
		}
		if events, last := j.take(); len(events) > 20 || last.Count != 10 {
			t.Errorf("%d events, the last one of %d", len(events), last.Count)
		}
		s.as("bob", wire.ReleasePath, q)
		if events, _ := j.take(); len(events) != 1 {
			t.Errorf("of another caller there are %d events", len(events))
		}
		time.Sleep(time.Minute)
		s.as("carol", wire.SweepPath, "{}")
		if events, last := j.take(); len(events) != 1 || last.Omitted < 300 {
			t.Errorf("%q omits %d", events, last.Omitted)
		}
	})
}
