package server_test

import (
	"net/http"
	"slices"
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
	"github.com/holdfast-go/holdfast/server/access"
)

// person is a caller whose rights a test changes.
type person struct {
	name string

	mu      sync.Mutex
	may     map[access.Verb][]string // prefixes
	maxTTL  time.Duration
	changed chan struct{}
}

func newPerson(name string, may map[access.Verb][]string) *person {
	return &person{name: name, may: may, maxTTL: 24 * time.Hour, changed: make(chan struct{})}
}

func (p *person) Name() string { return p.name }

func (p *person) May(v access.Verb, resource string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, prefix := range p.may[v] {
		if strings.HasPrefix(resource, prefix) {
			return true
		}
	}
	return false
}

func (p *person) MayAll(v access.Verb) bool { return p.May(v, "") }

func (p *person) MaxTTL(string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.maxTTL
}

func (p *person) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// remove takes all rights away.
func (p *person) remove() { p.change(nil) }

// change gives the person other rights.
func (p *person) change(may map[access.Verb][]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.may = may
	close(p.changed)
	p.changed = make(chan struct{})
}

// people are told apart by a header.
type people map[string]*person

func (ps people) identify(r *http.Request) (access.Caller, error) {
	if p := ps[r.Header.Get("Who")]; p != nil {
		return p, nil
	}
	return nil, access.ErrAnonymous
}

var everything = []string{""}

func newPeople() people {
	ps := people{}
	for _, p := range []*person{
		newPerson("alice", map[access.Verb][]string{access.Lock: everything}),
		newPerson("bob", map[access.Verb][]string{access.Lock: everything}),
		newPerson("carol", map[access.Verb][]string{access.Look: {"r"}}),
		newPerson("oscar", map[access.Verb][]string{access.Lock: everything, access.Look: everything, access.Force: everything}),
	} {
		ps[p.name] = p
	}
	return ps
}

func (s *site) as(name, path string, v any) answer { return s.post(path, v, "Who", name) }

func TestAnonymous(t *testing.T) {
	s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
	for _, a := range []answer{
		s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"}), s.as("nobody", wire.ReleasePath, "{}"), s.get(wire.HoldsPath), s.get(wire.TraitsPath),
	} {
		mustBe(t, a, wire.KindAnonymous)
		if a.header.Get("WWW-Authenticate") == "" {
			t.Error("no WWW-Authenticate")
		}
	}
	if a := s.get("/readyz"); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A lock ID belongs to its caller: others cannot renew or release, even with all IDs.
func TestOthersHolds(t *testing.T) {
	s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
	g := grantOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", LockID: "l", Owner: "job"}))
	if g.LockID != "l" {
		t.Errorf("lock ID %q", g.LockID)
	}
	if h := stored(t, s.store, "r")[0]; h.LockID != "alice:l" || h.Owner != "alice/job" {
		t.Errorf("stored %+v", h)
	}
	for _, lockID := range []string{"l", "alice:l"} {
		ref := refOf(g)
		ref.LockID = lockID
		renewed := read[wire.RenewAnswer](t, s.as("bob", wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: ref}}}))
		released := read[wire.ReleaseAnswer](t, s.as("bob", wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: ref}}}))
		if renewed.Results[0].Outcome != wire.Lost || released.Results[0].Found {
			t.Errorf("%+v %+v", renewed, released)
		}
	}
	renewed := read[wire.RenewAnswer](t, s.as("alice", wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: refOf(g)}}}))
	if renewed.Results[0].Outcome != wire.Renewed {
		t.Errorf("%+v", renewed)
	}
	// One that is too long with the name is refused, not cut.
	mustBe(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "x", LockID: strings.Repeat("l", driver.MaxName-5)}), wire.KindInvalid)
	mustBe(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "x", Owner: strings.Repeat("o", driver.MaxName)}), wire.KindInvalid)
}

// Nor can they end the waits of others.
func TestOthersWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
		g := grantOf(t, s.as("oscar", wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 600_000}))
		q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 20_000, Fair: true}
		alice := s.posting(t.Context(), wire.AcquirePath, q, "Who", "alice")
		synctest.Wait()
		var bob []<-chan answer
		for _, lockID := range []string{"", "of bob"} {
			q.LockID = lockID
			bob = append(bob, s.posting(t.Context(), wire.AcquirePath, q, "Who", "bob"))
			synctest.Wait()
		}
		for _, lockID := range []string{"", "of bob", "alice:" + wire.LockIDOf(q.HoldID)} {
			s.as("bob", wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: wire.Ref{Resource: "r", HoldID: q.HoldID, LockID: lockID}}}})
		}
		for _, wait := range bob {
			mustBe(t, <-wait, wire.KindUnknown)
		}
		s.as("oscar", wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: refOf(g)}}})
		synctest.Wait()
		select {
		case a := <-alice:
			grantOf(t, a)
		default:
			t.Fatal("she still waits")
		}
	})
}

// Nor can they keep what the server releases by itself: what an attempt got that arrived after
// its caller had released the hold, with an end or without one.
func TestOthersOrphans(t *testing.T) {
	for _, ttl := range []wire.Millis{600_000, wire.Forever} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			attempts := 0
			store := faulty(t, func(c drivertest.Call) drivertest.Fault {
				switch {
				case c.Op == drivertest.Acquire && c.Refs[0].Resource == "r":
					if attempts++; attempts == 1 {
						return drivertest.Fault{HoldRequest: after(time.Second)}
					}
				case c.Op == drivertest.Release && down.Load():
					return drivertest.Fault{LoseRequest: true}
				}
				return drivertest.Fault{}
			})
			ps := newPeople()
			ps["alice"].maxTTL = driver.Forever
			s := newSite(t, store, &server.Options{Identify: ps.identify})
			q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 25_000, TTLMs: ttl}
			alice := s.posting(t.Context(), wire.AcquirePath, q, "Who", "alice")
			synctest.Wait()
			s.as("alice", wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{
				Ref: wire.Ref{Resource: "r", HoldID: q.HoldID}, PlaceID: driver.PlaceID(q.HoldID),
			}}})
			down.Store(true)
			mustBe(t, <-alice, wire.KindUnknown)
			q.WaitMs, q.TTLMs = 0, 600_000
			heldOf(t, s.as("bob", wire.AcquirePath, q))
			down.Store(false)
			time.Sleep(30 * time.Second)
			if holds := stored(t, store, "r"); len(holds) != 0 {
				t.Errorf("%v: %+v", ttl, holds)
			}
		})
	}
}

// A place belongs to its caller, too, even if others know its ID.
func TestOthersPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
		grantOf(t, s.as("oscar", wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 600_000}))
		places := func() (all []string) {
			for p, err := range driver.Waiters(t.Context(), s.store, driver.Filter{Resource: "r"}) {
				if err != nil {
					t.Fatal(err)
				}
				owner, _, _ := strings.Cut(p.LockID, ":")
				all = append(all, owner)
			}
			return all
		}
		want := func(what string, owners ...string) {
			t.Helper()
			if got := places(); !slices.Equal(got, owners) {
				t.Errorf("%s: places of %q, want %q", what, got, owners)
			}
		}
		place, id := driver.NewPlaceID(), driver.NewHoldID()
		try := wire.AcquireRequest{Resource: "r", PlaceID: place, Fair: true}
		giveUp := func(who string, id driver.PlaceID) {
			s.as(who, wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: wire.Ref{Resource: "r"}, PlaceID: id}}})
		}
		held := heldOf(t, s.as("alice", wire.AcquirePath, try))
		want("one", "alice")
		if *held.Position != 1 {
			t.Errorf("position %d", *held.Position)
		}
		inStore := placesOf(t, s.store, "r")[0]
		if inStore != placeOf("alice", place) {
			t.Errorf("in the store it is %v", inStore)
		}
		for _, id := range []driver.PlaceID{place, inStore} {
			giveUp("bob", id)
			want("given up by another", "alice")
		}
		heldOf(t, s.as("bob", wire.AcquirePath, try))
		want("with the ID of another", "alice", "bob")
		if held = heldOf(t, s.as("alice", wire.AcquirePath, try)); *held.Position != 1 || held.Waiters != 2 {
			t.Errorf("asked again: %+v", held.Held)
		}
		giveUp("bob", place)
		want("the own one", "alice")

		// The place of a wait is that of its hold ID.
		wait := wire.AcquireRequest{Resource: "r", HoldID: id, WaitMs: 20_000, Fair: true}
		waits := s.posting(t.Context(), wire.AcquirePath, wait, "Who", "bob")
		synctest.Wait()
		want("a wait", "alice", "bob")
		giveUp("alice", driver.PlaceID(id))
		want("given up by another", "alice", "bob")
		s.as("bob", wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: wire.Ref{Resource: "r", HoldID: id}, PlaceID: driver.PlaceID(id)}}})
		mustBe(t, <-waits, wire.KindUnknown)
		want("a wait that was released", "alice")
	})
}

// Without the right, no answer has an ID of another, wherever it might be.
func TestIDsAreHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
		id := driver.NewHoldID()
		g := grantOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{
			Resource: "r", LockID: "secret-lock", HoldID: id, Comment: "why", TTLMs: 600_000,
		}))
		place := driver.NewPlaceID()
		heldOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", LockID: "secret-place", PlaceID: place, Fair: true}))
		waiting := driver.NewHoldID()
		waits := s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r", LockID: "secret-wait", HoldID: waiting, WaitMs: 20_000, Fair: true}, "Who", "alice")
		synctest.Wait()

		secrets := map[string]string{
			id.String(): "hold ID", "secret-": "lock ID", `"token":`: "token", place.String(): "place ID",
			waiting.String(): "hold ID of a waiter",
		}
		queries := []string{
			wire.HoldsPath, wire.HoldsPath + "?resource=r", wire.WaitersPath, wire.WaitersPath + "?resource=r",
			wire.HoldsPath + "?lockId=secret-lock", wire.HoldsPath + "?lockId=alice:secret-lock",
		}
		var answers []answer
		for _, who := range []string{"bob", "carol"} {
			for _, q := range queries {
				answers = append(answers, s.get(q, "Who", who), s.get(q, "Who", who, "Accept", wire.NDJSON))
			}
			for _, q := range []wire.AcquireRequest{
				{Resource: "r"}, {Resource: "r", WaitMs: 500}, {Resource: "r", LockID: "secret-lock"}, {Resource: "r", PlaceID: driver.NewPlaceID(), Fair: true},
			} {
				a := s.as(who, wire.AcquirePath, q)
				if who == "carol" {
					mustBe(t, a, wire.KindDenied)
				} else if held := heldOf(t, a); held.Holders[0].Owner != "" || held.Holders[0].Ref != "" || held.Holders[0].CreatedAt != nil {
					t.Errorf("bob, who may only lock, sees %+v", held.Holders[0])
				}
				answers = append(answers, a)
			}
		}
		for _, a := range answers {
			text := string(a.body)
			if strings.Contains(text, `"secret-lock" is held`) { // what the caller wrote itself
				t.Errorf("%s", text)
			}
			for secret, what := range secrets {
				if strings.Contains(text, secret) {
					t.Errorf("a %s is shown: %s", what, text)
				}
			}
		}
		// Carol may look: she sees who, since when and why.
		list := read[wire.HoldList](t, s.get(wire.HoldsPath, "Who", "carol"))
		if len(list.Holds) != 1 || list.Holds[0].Owner != "alice" || list.Holds[0].Comment != "why" || list.Holds[0].Ref != wire.RefOf(id) {
			t.Errorf("%+v", list)
		}
		// Bob has no holds: his list is empty.
		if list := read[wire.HoldList](t, s.get(wire.HoldsPath, "Who", "bob")); len(list.Holds) != 0 {
			t.Errorf("%+v", list)
		}
		// Alice and Oscar see all.
		list = read[wire.HoldList](t, s.get(wire.HoldsPath, "Who", "alice"))
		if h := list.Holds[0]; h.HoldID != id || h.LockID != "secret-lock" || h.Token != g.Token {
			t.Errorf("%+v", h)
		}
		for _, q := range []string{"", "?lockId=alice:secret-lock"} {
			list = read[wire.HoldList](t, s.get(wire.HoldsPath+q, "Who", "oscar"))
			if h := list.Holds[0]; h.HoldID != id || h.LockID != "alice:secret-lock" {
				t.Errorf("%+v", h)
			}
		}
		<-waits
	})
}

// Who may lock, but not look, is shown that a resource is held, as a refusal shows it, and not
// whether a filter chooses what holds it.
func TestOutlinesInLists(t *testing.T) {
	s := newSite(t, nil, &server.Options{Identify: newPeople().identify})
	grantOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", LockID: "l", Owner: "job", Comment: "why"}))
	heldOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", LockID: "other", PlaceID: driver.NewPlaceID(), Fair: true}))
	holds := read[wire.HoldList](t, s.get(wire.HoldsPath+"?resource=r", "Who", "bob")).Holds
	if len(holds) != 1 || holds[0].TTLMs == nil || holds[0] != (wire.Hold{Resource: "r", Mode: driver.Exclusive, TTLMs: holds[0].TTLMs}) {
		t.Errorf("%+v", holds)
	}
	waiters := read[wire.WaiterList](t, s.get(wire.WaitersPath+"?resource=r", "Who", "bob")).Waiters
	if len(waiters) != 1 || waiters[0].LockID != "" || waiters[0].Owner != "" || !waiters[0].Fair {
		t.Errorf("%+v", waiters)
	}
	for _, q := range []string{"", "?resource=r&owner=alice/job", "?resource=r&lockId=alice:l", "?resource=r&ttlBelowMs=1000000", "?resource=r&expired=true"} {
		if holds := read[wire.HoldList](t, s.get(wire.HoldsPath+q, "Who", "bob")).Holds; len(holds) != 0 {
			t.Errorf("%s: %+v", q, holds)
		}
	}
}

// No answer has the ID of a place, as its caller has given it or as the store has it. By the
// first, which is a hold ID if the server waits, anybody without a name could take over the
// place, give it up, or release what it leads to.
func TestPlacesAreHidden(t *testing.T) {
	for who, identify := range map[string]access.Identify{"nobody": nil, "operator": operator} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, &server.Options{Identify: identify})
				s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
				q := wire.AcquireRequest{Resource: "r", LockID: "l", PlaceID: driver.NewPlaceID(), Fair: true}
				own := s.post(wire.AcquirePath, q)
				heldOf(t, own)
				waits, ids := s.line(1, wire.AcquireRequest{Resource: "r", WaitMs: 5000, Fair: true})
				refused := s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"})
				if n := len(heldOf(t, refused).Ahead); n != 2 {
					t.Errorf("%d are ahead", n)
				}
				answers := []answer{own, refused, s.get(wire.WaitersPath), s.get(wire.WaitersPath + "?lockId=l"), s.get(wire.WaitersPath, "Accept", wire.NDJSON)}
				hidden := append(placesOf(t, s.store, "r"), q.PlaceID, driver.PlaceID(ids[0]))
				for _, a := range answers {
					for _, id := range hidden {
						if strings.Contains(string(a.body), id.String()) {
							t.Errorf("%v is in %s", id, a.body)
						}
					}
				}
				// What the store has is no ID of a place to the server.
				inStore := placesOf(t, s.store, "r")
				if len(inStore) != 2 || inStore[0] != placeOf("", q.PlaceID) || inStore[1] != placeOf("", driver.PlaceID(ids[0])) {
					t.Errorf("places %v", inStore)
				}
				for _, id := range inStore {
					s.post(wire.ReleasePath, wire.ReleaseRequest{Holds: []wire.Release{{Ref: wire.Ref{Resource: "r"}, PlaceID: id}}})
				}
				if places := placesOf(t, s.store, "r"); !slices.Equal(places, inStore) {
					t.Errorf("the places became %v", places)
				}
				heldOf(t, <-waits[0])
			})
		})
	}
}

// Nobody has a name: lock IDs are what one knows.
func TestIDsAreHiddenWithoutNames(t *testing.T) {
	s := newSite(t, nil, nil)
	g := s.acquire(wire.AcquireRequest{Resource: "r", LockID: "secret"})
	for _, a := range []answer{s.get(wire.HoldsPath), s.get(wire.HoldsPath + "?resource=r"), s.post(wire.AcquirePath, wire.AcquireRequest{Resource: "r"})} {
		for _, id := range []string{"secret", g.HoldID.String(), `"token":`} {
			if strings.Contains(string(a.body), id) {
				t.Errorf("%s is in %s", id, a.body)
			}
		}
	}
	list := read[wire.HoldList](t, s.get(wire.HoldsPath+"?lockId=secret"))
	if h := list.Holds[0]; h.HoldID != g.HoldID || h.Token != g.Token {
		t.Errorf("%+v", h)
	}
}

func TestMaxTTL(t *testing.T) {
	ps := newPeople()
	ps["alice"].maxTTL = time.Minute
	s := newSite(t, nil, &server.Options{Identify: ps.identify})
	id := driver.NewHoldID()
	mustBe(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 60_001}), wire.KindDenied)
	mustBe(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: wire.Forever, HoldID: id}), wire.KindDenied)
	mustBe(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", TakeoverDelayMs: 60_001}), wire.KindDenied)
	g := grantOf(t, s.as("alice", wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 60_000}))
	a := s.as("alice", wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: refOf(g), TTLMs: wire.Forever}, {Ref: refOf(g), TTLMs: 60_000}}})
	rs := read[wire.RenewAnswer](t, a).Results
	if rs[0].Outcome != wire.Denied || rs[1].Outcome != wire.Renewed {
		t.Errorf("%+v", rs)
	}
}

// A caller that is removed loses its waits and its streams at once.
func TestRemovedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeople()
		s := newSite(t, nil, &server.Options{Identify: ps.identify})
		s.as("bob", wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		waits := s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 25_000, Fair: true}, "Who", "alice")
		events, stop := s.eventsAs(wire.WatchPath+"?resource=r", "alice")
		defer stop()
		if e := <-events; e != "event: ready" {
			t.Fatal(e)
		}
		synctest.Wait()
		began := time.Now()
		ps["alice"].remove()
		mustBe(t, <-waits, wire.KindDenied)
		if e, open := <-events; open {
			t.Errorf("got %q", e)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		if list := read[wire.WaiterList](t, s.get(wire.WaitersPath, "Who", "oscar")); len(list.Waiters) != 0 {
			t.Errorf("its place is kept: %+v", list)
		}
	})
}

// A caller that is removed is told nothing definite while an attempt may still be applied. What
// it gets stays: another server may have granted the same hold to a repeat.
func TestRemovedCallerAfterAnUnknownAttempt(t *testing.T) {
	for name, elsewhere := range map[string]bool{"applied late": false, "granted elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := newPeople(), newPeople()
				arrives := make(chan struct{})
				store := faulty(t, attempts(func(n int) (f drivertest.Fault) {
					if n == 1 {
						f.HoldRequest = arrives
					}
					return f
				}))
				s := newSite(t, store, &server.Options{Identify: here.identify})
				other := newSite(t, store, &server.Options{Identify: there.identify}) // has not read the file yet
				q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 25_000, TTLMs: 600_000}
				waits := s.posting(t.Context(), wire.AcquirePath, q, "Who", "alice")
				time.Sleep(time.Second)
				here["alice"].remove()
				mustBe(t, <-waits, wire.KindUnknown)
				if elsewhere {
					other.as("alice", wire.AcquirePath, q)
				}
				synctest.Wait()
				close(arrives)
				time.Sleep(time.Minute)
				if holds := stored(t, store, "r"); len(holds) != 1 || holds[0].HoldID != q.HoldID {
					t.Errorf("%+v", holds)
				}
			})
		})
	}
}

// A change of what else a caller may do costs its waits nothing, and is not the last one that
// they notice.
func TestChangedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeople()
		store := faulty(t, never)
		s := newSite(t, store, &server.Options{Identify: ps.identify})
		s.as("bob", wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
		var waits []<-chan answer
		for range 20 {
			waits = append(waits, s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: 25_000}, "Who", "alice"))
		}
		synctest.Wait()
		before := store.Calls(drivertest.Acquire)
		for _, more := range []string{"x", "y"} {
			ps["alice"].change(map[access.Verb][]string{access.Lock: everything, access.Look: {more}})
			synctest.Wait()
		}
		if n := store.Calls(drivertest.Acquire) - before; n != 0 {
			t.Errorf("%d attempts", n)
		}
		ps["alice"].remove()
		synctest.Wait()
		for _, w := range waits {
			select {
			case a := <-w:
				mustBe(t, a, wire.KindDenied)
			default:
				t.Fatal("a wait goes on")
			}
		}
	})
}

// The right is looked at again at the grant. A hold whose ID the server made is released: it
// is nobody's. One whose ID is the caller's stays, for a repeat may have been answered that it
// is granted, by this server before, or by another one.
func TestRightIsGoneAtTheGrant(t *testing.T) {
	for name, c := range map[string]struct {
		wait  wire.Millis
		ours  bool
		again func(a, b *site) *site // where the caller repeats it; nil: nowhere
		holds int
	}{
		"at once, the server's ID":         {ours: true},
		"a wait, the server's ID":          {ours: true, wait: 20_000},
		"at once":                          {holds: 1},
		"a wait":                           {holds: 1, wait: 20_000},
		"repeated at the server":           {holds: 1, again: func(a, _ *site) *site { return a }},
		"repeated at another":              {holds: 1, again: func(_, b *site) *site { return b }},
		"a wait that another server heard": {holds: 1, wait: 20_000, again: func(_, b *site) *site { return b }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there := newPeople(), newPeople()
				store := faulty(t, attempts(func(n int) (f drivertest.Fault) {
					if n == 1 {
						f.HoldReply = after(5 * time.Second)
					}
					return f
				}))
				s := newSite(t, store, &server.Options{Identify: here.identify})
				other := newSite(t, store, &server.Options{Identify: there.identify}) // has not read the file yet
				q := wire.AcquireRequest{Resource: "r", WaitMs: c.wait, TTLMs: 600_000}
				want := wire.KindDenied
				if !c.ours {
					q.HoldID, want = driver.NewHoldID(), wire.KindUnknown
				}
				a := s.posting(t.Context(), wire.AcquirePath, q, "Who", "alice")
				time.Sleep(time.Second)
				if c.again != nil {
					grantOf(t, c.again(s, other).as("alice", wire.AcquirePath, q))
				}
				here["alice"].remove()
				mustBe(t, <-a, want)
				time.Sleep(time.Minute)
				if holds := stored(t, store, "r"); len(holds) != c.holds {
					t.Errorf("%+v", holds)
				}
			})
		})
	}
}

// A hold whose caller loses its right before it is without an end, ends.
func TestRightIsGoneBeforeItIsEndless(t *testing.T) {
	for _, wait := range []wire.Millis{0, 20_000} {
		synctest.Test(t, func(t *testing.T) {
			ps := newPeople()
			ps["alice"].maxTTL = driver.Forever
			store := faulty(t, answersLate(5*time.Second))
			s := newSite(t, store, &server.Options{Identify: ps.identify})
			q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), WaitMs: wait, TTLMs: wire.Forever}
			a := s.posting(t.Context(), wire.AcquirePath, q, "Who", "alice")
			time.Sleep(time.Second)
			ps["alice"].remove()
			mustBe(t, <-a, wire.KindUnknown)
			time.Sleep(time.Minute)
			if holds := stored(t, store, "r"); len(holds) != 0 {
				t.Errorf("%+v", holds)
			}
		})
	}
}

// A list whose reader loses the right in the middle does not look like a short one.
func TestRightIsGoneInAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := newPeople()
		store := &cutStore{Store: memlock.New(nil)}
		s := newSite(t, store, &server.Options{Identify: ps.identify})
		for _, r := range []string{"r1", "r2", "r3", "r4"} {
			s.as("oscar", wire.AcquirePath, wire.AcquireRequest{Resource: r})
		}
		store.before = func(n int) {
			if n == 4 {
				ps["carol"].remove()
			}
		}
		mustBe(t, s.get(wire.HoldsPath, "Who", "carol"), wire.KindDenied)
	})
}

func TestListsOfOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cutStore{Store: memlock.New(nil)}
		s := newSite(t, store, &server.Options{Identify: newPeople().identify})
		s.as("oscar", wire.AcquirePath, wire.AcquireRequest{Resource: "r"})
		release := make(chan struct{})
		store.before = func(int) { <-release }
		var lists []<-chan answer
		for range 4 {
			ch := make(chan answer, 1)
			go func() { ch <- s.get(wire.HoldsPath, "Who", "carol") }()
			lists = append(lists, ch)
		}
		synctest.Wait()
		mustBe(t, s.get(wire.HoldsPath, "Who", "carol"), wire.KindBusy)
		close(release)
		for _, l := range lists {
			if a := <-l; a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		if a := s.get(wire.HoldsPath, "Who", "oscar"); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}
