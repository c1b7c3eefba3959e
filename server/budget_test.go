package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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

// invented are renewals of holds that are not there.
func invented(n int) (holds []wire.Renewal) {
	for range n {
		holds = append(holds, wire.Renewal{Ref: wire.Ref{Resource: "r", HoldID: driver.NewHoldID(), Token: 7}})
	}
	return holds
}

// Who renews what is not there loses its reserve, but not the holds that the server has seen.
func TestRenewalsForNothing(t *testing.T) {
	for name, as := range map[string]string{"lost": "bob", "denied": "carol"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ps := newPeople()
				ps["carol"].may = map[access.Verb][]string{access.Lock: {"mine"}}
				slow := map[budget.Flow]budget.Rate{budget.Requests: {PerSecond: 1, Most: 10_000}}
				s := newSite(t, nil, &server.Options{Identify: ps.identify, Budget: budget.New(&budget.Options{Rates: slow})})
				acquire := func(who string) wire.Ref {
					return refOf(grantOf(t, s.as(who, wire.AcquirePath, wire.AcquireRequest{Resource: "mine", Mode: driver.Shared, HoldID: driver.NewHoldID(), TTLMs: 600_000})))
				}
				mine, others := acquire(as), acquire("alice")
				renew := func(who string, holds ...wire.Renewal) answer {
					return s.as(who, wire.RenewPath, wire.RenewRequest{Holds: holds})
				}
				refused := 0
				for range 30 {
					switch a := renew(as, invented(1000)...); {
					case a.status == http.StatusOK && refused == 0:
					case a.kind() == wire.KindTooLarge:
						mustBe(t, renew(as, invented(50)...), wire.KindBusy)
						refused++
					default:
						t.Fatalf("after %d refusals %d %s", refused, a.status, a.body)
					}
				}
				if refused < 10 {
					t.Errorf("%d of 30 are refused", refused)
				}
				if a := renew("alice", wire.Renewal{Ref: others}); read[wire.RenewAnswer](t, a).Results[0].Outcome != wire.Renewed {
					t.Errorf("of another caller: %s", a.body)
				}
				unnamed := mine
				unnamed.Token = 0
				mustBe(t, renew(as, wire.Renewal{Ref: unnamed}), wire.KindBusy)
				mustBe(t, renew(as, wire.Renewal{Ref: others}), wire.KindBusy)
				for range 3 {
					rs := read[wire.RenewAnswer](t, renew(as, append(invented(99), wire.Renewal{Ref: mine})...)).Results
					if rs[0].Outcome != wire.Unknown || rs[99].Outcome != wire.Renewed {
						t.Errorf("%+v, %+v", rs[0], rs[99])
					}
				}
				release := func() answer {
					return s.as(as, wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: mine}}})
				}
				if r := read[wire.ReleaseAnswer](t, release()).Results[0]; !r.Found {
					t.Errorf("%+v", r)
				}
				mustBe(t, release(), wire.KindBusy) // it is not known any more
				time.Sleep(time.Minute)
				if a := renew(as, invented(1)...); a.status != http.StatusOK {
					t.Errorf("after a minute: %d %s", a.status, a.body)
				}
			})
		})
	}
}

// What the store does not answer about holds that the server has seen is charged to nobody.
func TestRenewalsInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		store := faulty(t, func(drivertest.Call) drivertest.Fault { return drivertest.Fault{LoseReply: failing.Load()} })
		few := map[budget.Flow]budget.Rate{budget.Requests: {PerSecond: 1, Most: 2000}}
		s := newSite(t, store, &server.Options{Budget: budget.New(&budget.Options{Rates: few})})
		var mine []wire.Renewal
		for range 100 {
			g := s.acquire(wire.AcquireRequest{Resource: "r", Mode: driver.Shared, TTLMs: 600_000})
			mine = append(mine, wire.Renewal{Ref: refOf(g), TTLMs: 600_000})
		}
		failing.Store(true)
		renew := func(holds []wire.Renewal) answer { return s.post(wire.RenewPath, wire.RenewRequest{Holds: holds}) }
		for range 50 {
			if r := read[wire.RenewAnswer](t, renew(mine)).Results[99]; r.Outcome != wire.Unknown {
				t.Fatalf("%+v", r)
			}
		}
		if a := renew(invented(1)); a.status != http.StatusOK {
			t.Errorf("the reserve is lost: %d %s", a.status, a.body)
		}
		for range 5 {
			renew(invented(1000))
		}
		mustBe(t, renew(invented(1)), wire.KindBusy)
	})
}

// What a server has not granted itself it knows from the first renewal on.
func TestRenewalsOfAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newSite(t, nil, nil)
		g := first.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		b := budget.New(nil)
		s := newSite(t, first.store, &server.Options{Budget: b})
		waste := func() {
			b.Of("unknown", false).Waste(1_000_000)
			if a := s.post(wire.RenewPath, wire.RenewRequest{Holds: invented(1)}); a.kind() != wire.KindBusy {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		renew := wire.RenewRequest{Holds: []wire.Renewal{{Ref: refOf(g), TTLMs: 600_000}}}
		waste()
		mustBe(t, s.post(wire.RenewPath, renew), wire.KindBusy)
		time.Sleep(3 * time.Minute)
		if a := s.post(wire.RenewPath, renew); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		waste()
		for range 3 {
			time.Sleep(9 * time.Minute)
			waste()
			if a := s.post(wire.RenewPath, renew); a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		time.Sleep(11 * time.Minute) // it has ended
		waste()
		mustBe(t, s.post(wire.RenewPath, renew), wire.KindBusy)
	})
}

// The lists of all callers together leave some to operators, and those of one some to others.
func TestTooManyLists(t *testing.T) {
	b := budget.New(nil)
	s := newSite(t, nil, &server.Options{Identify: newPeople().identify, Budget: b})
	list := func(who string) answer { return s.get(wire.HoldsPath, "Who", who) }
	open := func(who string, n int64) {
		claim, ok := b.Of("caller/"+who, false).Open(budget.Lists, n)
		if !ok {
			t.Fatalf("%s has no list", who)
		}
		t.Cleanup(claim.Close)
	}
	open("alice", 4)
	mustBe(t, list("alice"), wire.KindBusy)
	if a := list("bob"); a.status != http.StatusOK {
		t.Errorf("of another caller: %d %s", a.status, a.body)
	}
	for _, who := range []string{"x", "y", "z"} {
		open(who, 4)
	}
	mustBe(t, list("bob"), wire.KindBusy)
	if a := list("oscar"); a.status != http.StatusOK {
		t.Errorf("of an operator: %d %s", a.status, a.body)
	}
}

// A release by force walks through the holds of its resource, and is charged like a list of them.
func TestForcesAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		people := newPeople()
		people["fred"] = newPerson("fred", map[access.Verb][]string{access.Force: {"m"}})
		s := newSite(t, nil, &server.Options{Identify: people.identify})
		for range 5000 {
			hold := driver.AcquireRequest{Resource: "m", LockID: driver.NewHoldID().String(), HoldID: driver.NewHoldID(), Mode: driver.Shared, TTL: time.Hour}
			if _, err := s.store.Acquire(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
		}
		force := wire.ForceRequest{Ref: wire.Ref{Resource: "m", HoldID: driver.NewHoldID(), Token: 1}, Reason: "to try"}
		for served := 0; ; served++ {
			a := s.as("fred", wire.ForceReleasePath, force)
			if a.status != http.StatusOK || served > 60 {
				mustBe(t, a, wire.KindBusy)
				break
			}
		}
		if a := s.as("oscar", wire.ForceReleasePath, force); a.status != http.StatusOK {
			t.Errorf("of an operator: %d %s", a.status, a.body)
		}
	})
}

// Lists cost what they walk through and write, not how often they are asked for.
func TestListsAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
		for i := range 2000 {
			hold := driver.AcquireRequest{Resource: fmt.Sprint(i), LockID: "x", HoldID: driver.NewHoldID(), TTL: time.Hour}
			if _, err := s.store.Acquire(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
		}
		served := 0
		for ; served < 1000; served++ {
			if a := s.get(wire.HoldsPath, "Who", "oscar"); a.kind() == wire.KindBusy && a.header.Get("Retry-After") == "1" {
				break
			}
		}
		if served < 5 || served > 60 {
			t.Errorf("%d lists are served", served)
		}
		if a := s.get(wire.HoldsPath, "Who", "bob"); a.status != http.StatusOK {
			t.Errorf("of another caller: %d", a.status)
		}
		if a := s.as("oscar", wire.AcquirePath, wire.AcquireRequest{Resource: "r"}); a.status != http.StatusOK {
			t.Errorf("an acquire of the same one: %d", a.status)
		}
		time.Sleep(2 * time.Second)
		if a := s.get(wire.HoldsPath, "Who", "oscar"); a.status != http.StatusOK {
			t.Errorf("two seconds later: %d", a.status)
		}
	})
}

// A filter makes a list shorter, and no cheaper.
func TestListsWithFiltersAreCharged(t *testing.T) {
	for name, filter := range map[string]string{"owner": "?owner=nobody", "lock ID": "?lockId=nobody"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
				for i := range 2000 {
					hold := driver.AcquireRequest{Resource: fmt.Sprint(i), LockID: "x", HoldID: driver.NewHoldID(), TTL: time.Hour}
					if _, err := s.store.Acquire(t.Context(), hold); err != nil {
						t.Fatal(err)
					}
				}
				served := 0
				for ; served < 1000 && s.get(wire.HoldsPath+filter, "Who", "bob").status == http.StatusOK; served++ {
				}
				if served < 5 || served > 60 {
					t.Errorf("%d lists are served", served)
				}
				if a := s.get(wire.WaitersPath+"?owner=nobody", "Who", "alice"); a.status != http.StatusOK {
					t.Errorf("of another caller: %d", a.status)
				}
			})
		})
	}
}

// lines are those of a log that several goroutines write.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

func (l *lines) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Buffer.Reset()
}

// A store that fails all the time is in the log once a minute.
func TestLogOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		store := faulty(t, func(drivertest.Call) drivertest.Fault { return drivertest.Fault{LoseReply: failing.Load()} })
		var log lines
		s := newSite(t, store, &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		failing.Store(true)
		fail := func(n int) (lines string) {
			log.Reset()
			for range n {
				mustBe(t, s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID()}), wire.KindUnknown)
			}
			return log.String()
		}
		if lines := fail(50); strings.Count(lines, "the store failed") != 1 {
			t.Errorf("%s", lines)
		}
		// How many more there were is told when a minute is over, and not by the next one only.
		log.Reset()
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines := log.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "=49") {
			t.Errorf("%s", lines)
		}
		if lines := fail(50); lines != "" {
			t.Errorf("%s", lines)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if lines := log.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "=50") {
			t.Errorf("%s", lines)
		}
		log.Reset()
		time.Sleep(time.Hour)
		synctest.Wait()
		if lines := log.String(); lines != "" {
			t.Errorf("none fails: %s", lines)
		}
		if lines := fail(2); strings.Count(lines, "the store failed") != 1 {
			t.Errorf("an hour later: %s", lines)
		}
		s.post(wire.RenewPath, wire.RenewRequest{Holds: invented(1)})
		if lines := log.String(); strings.Count(lines, "the store failed") != 2 {
			t.Errorf("another failure: %s", lines)
		}
		log.Reset()
		if err := s.Close(); err != nil || !strings.Contains(log.String(), "=1\n") {
			t.Errorf("%v, at the end: %s", err, log.String())
		}
	})
}

// What is for nothing is charged once the store has answered: until then there is a limit to it.
// The holds that the server has seen are renewed beside it.
func TestManyRenewalsForNothingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under atomic.Int64
		answered := make(chan struct{})
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			if c.Op != drivertest.Renew || len(c.Refs) < 1000 {
				return drivertest.Fault{}
			}
			under.Add(1)
			return drivertest.Fault{HoldRequest: answered}
		})
		s := newSite(t, store, &server.Options{Identify: newPeople().identify})
		g := grantOf(t, s.as("bob", wire.AcquirePath, wire.AcquireRequest{Resource: "mine", HoldID: driver.NewHoldID(), TTLMs: 600_000}))
		kinds := make(chan wire.Kind, 20)
		for range cap(kinds) {
			go func() { kinds <- s.as("bob", wire.RenewPath, wire.RenewRequest{Holds: invented(1000)}).kind() }()
		}
		time.Sleep(2 * time.Second) // of the bubble: whoever is refused was told so
		if n := under.Load(); n != 2 {
			t.Errorf("%d batches are at the store", n)
		}
		if n := len(kinds); n != 18 {
			t.Errorf("%d batches are refused", n)
		}
		for range len(kinds) {
			if kind := <-kinds; kind != wire.KindBusy {
				t.Errorf("%q", kind)
			}
		}
		rs := read[wire.RenewAnswer](t, s.as("bob", wire.RenewPath, wire.RenewRequest{Holds: append(invented(9), wire.Renewal{Ref: refOf(g)})})).Results
		if rs[0].Outcome != wire.Unknown || rs[9].Outcome != wire.Renewed {
			t.Errorf("%+v, %+v", rs[0], rs[9])
		}
		if a := s.as("alice", wire.RenewPath, wire.RenewRequest{Holds: invented(9)}); a.status != http.StatusOK {
			t.Errorf("of another caller: %d", a.status)
		}
		close(answered)
		synctest.Wait()
		for range len(kinds) {
			if kind := <-kinds; kind != "" {
				t.Errorf("once the store answers: %q", kind)
			}
		}
	})
}

// However many acquires there are, few are at the store, which has renewals to serve.
func TestAttemptsAtTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under atomic.Int64
		answered := make(chan struct{})
		store := faulty(t, func(c drivertest.Call) drivertest.Fault {
			if c.Op != drivertest.Acquire {
				return drivertest.Fault{}
			}
			under.Add(1)
			return drivertest.Fault{HoldRequest: answered}
		})
		s := newSite(t, store, nil)
		kinds := make(chan wire.Kind, 16*runtime.GOMAXPROCS(0)+36)
		for i := range cap(kinds) {
			go func() {
				kinds <- s.post(wire.AcquirePath, wire.AcquireRequest{Resource: fmt.Sprint(i), HoldID: driver.NewHoldID(), TTLMs: 60_000}).kind()
			}()
		}
		synctest.Wait()
		if n := int(under.Load()); n != 16*runtime.GOMAXPROCS(0) {
			t.Errorf("%d acquires are at the store", n)
		}
		if a := s.post(wire.RenewPath, wire.RenewRequest{Holds: invented(1)}); a.status != http.StatusOK {
			t.Errorf("a renewal: %d", a.status)
		}
		close(answered)
		for range cap(kinds) {
			if kind := <-kinds; kind != "" {
				t.Errorf("once the store answers: %q", kind)
			}
		}
	})
}
