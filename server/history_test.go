package server_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/history/historyfile"
	"github.com/holdfast-go/holdfast/server/sight"
)

// withHistory runs the test in a bubble, with a server that keeps a history of its store.
func withHistory(t *testing.T, identify access.Identify, test func(*testing.T, *site)) {
	file := filepath.Join(t.TempDir(), "history.db")
	synctest.Test(t, func(t *testing.T) {
		log, err := historyfile.Open(t.Context(), file, &history.Options{Name: "one"})
		if err != nil {
			t.Fatal(err)
		}
		store := memlock.New(nil)
		looker := sight.New(store, &sight.Options{Skip: server.Reserved})
		log.Follow(looker)
		t.Cleanup(func() {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
			looker.Close()
			_ = store.Close()
		})
		test(t, newSite(t, store, &server.Options{Identify: identify, History: log}))
	})
}

// past returns what the path answers, the newest first.
func (s *site) past(query string) wire.History {
	s.t.Helper()
	synctest.Wait()
	a := s.get(wire.HistoryPath + "?" + query)
	if a.status != http.StatusOK {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	return read[wire.History](s.t, a)
}

func waysOf(h wire.History) string {
	var all []string
	for _, past := range h.Holds {
		all = append(all, cmp.Or(past.How, "held"))
	}
	return strings.Join(all, " ")
}

func TestHistory(t *testing.T) {
	withHistory(t, operator, func(t *testing.T, s *site) {
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 60_000, Owner: "ada", Host: "engine", Comment: "for a test"})
		if h := s.past("resource=r").Holds[0]; h.Ended != nil || h.How != "" {
			t.Errorf("%+v", h)
		}
		time.Sleep(10 * time.Second)
		if r := s.renew(refOf(g), 60_000); r.Outcome != wire.Renewed {
			t.Fatalf("%+v", r)
		}
		time.Sleep(10 * time.Second)
		s.release(refOf(g))
		s.release(refOf(g))
		time.Sleep(10 * time.Second)
		h := s.past("resource=r")
		if got := waysOf(h); got != "released" || h.Truncated {
			t.Fatalf("%+v", h)
		}
		past := h.Holds[0]
		if past.Ref != wire.RefOf(g.HoldID) || past.Token != g.Token || past.Began.ByAgoMs != 30_000 || past.Ended.ByAgoMs != 10_000 ||
			!past.Began.After.Equal(past.Began.By) || !past.Ended.After.Equal(past.Ended.By) ||
			past.Host != "engine" || past.Comment != "for a test" || !strings.HasSuffix(past.Owner, "ada") {
			t.Errorf("%+v", past)
		}
		if k := h.Kept; k.Server != "one" || k.SinceAgoMs != 30_000 || k.Dropped != 0 || k.FailingMs != nil || *k.PeriodMs != 1000 || len(k.Gaps) != 0 || k.Removed != nil {
			t.Errorf("%+v", k)
		}
		if bytes.Contains(s.get(wire.HistoryPath+"?resource=r").body, []byte(g.HoldID.String())) {
			t.Error("it shows a hold ID")
		}
	})
}

func TestHistoryOfForceAndLoss(t *testing.T) {
	withHistory(t, operator, func(t *testing.T, s *site) {
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 60_000})
		a := s.post(wire.ForceReleasePath, wire.ForceRequest{Ref: refOf(g), Reason: "it hung"})
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if r := s.renew(refOf(g), 60_000); r.Outcome != wire.Lost {
			t.Fatalf("%+v", r)
		}
		g = s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 60_000})
		ref := driver.HoldRef{Resource: "r", LockID: stored(t, s.store, "r")[0].LockID, HoldID: g.HoldID, Token: g.Token}
		if _, err := s.store.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}}); err != nil {
			t.Fatal(err)
		}
		if r := s.renew(refOf(g), 60_000); r.Outcome != wire.Lost {
			t.Fatalf("%+v", r)
		}
		h := s.past("resource=r")
		if got := waysOf(h); got != "lost forced" {
			t.Fatal(got)
		}
		if past := h.Holds[1]; past.Reason != "it hung" || past.By != "" { // an operator has no name
			t.Errorf("%+v", past)
		}
	})
}

// An acquire that waits is granted once, and the server's own hold is nobody's business.
func TestHistoryOfWait(t *testing.T) {
	withHistory(t, operator, func(t *testing.T, s *site) {
		g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 60_000})
		waiting := s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 60_000, WaitMs: 20_000})
		time.Sleep(5 * time.Second)
		s.release(refOf(g))
		grantOf(t, <-waiting)
		if got := waysOf(s.past("resource=r")); got != "held released" {
			t.Error(got)
		}
		time.Sleep(10 * time.Second)
		s.acquire(wire.AcquireRequest{Resource: "next", TTLMs: 60_000})
		if n := s.past("resource=next").Holds[0].Number; n != 3 {
			t.Errorf("%d holds", n)
		}
	})
}

func TestHistoryPages(t *testing.T) {
	withHistory(t, operator, func(t *testing.T, s *site) {
		for range 601 {
			s.release(refOf(s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 60_000})))
		}
		h := s.past("resource=r&limit=500")
		if len(h.Holds) != 500 || !h.Truncated {
			t.Fatalf("%d holds, truncated %v", len(h.Holds), h.Truncated)
		}
		rest := s.past(fmt.Sprintf("resource=r&limit=500&before=%d", h.Holds[499].Number))
		if len(rest.Holds) != 101 || rest.Truncated || rest.Holds[0].Number >= h.Holds[499].Number {
			t.Errorf("%d holds, truncated %v", len(rest.Holds), rest.Truncated)
		}
		a := s.get(wire.HistoryPath+"?resource=r", "Accept", wire.NDJSON)
		lines := bytes.Split(bytes.TrimSpace(a.body), []byte("\n"))
		var end wire.End
		if err := json.Unmarshal(lines[len(lines)-1], &end); err != nil || end.End == nil || end.End.Count != 601 || len(lines) != 602 {
			t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
		}
		time.Sleep(time.Minute)
		s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 60_000})
		if got := waysOf(s.past("resource=r&sinceMs=1000")); got != "held" {
			t.Error(got)
		}
		for _, query := range []string{
			"", "resource=", "resource=r&limit=0", "resource=r&limit=10001", "resource=r&before=0", "resource=r&before=x", "resource=r&sinceMs=0",
			"resource=r&sinceMs=-1", "resource=r&resource=r", "resource=r&lockId=x", "resource=holdfast/server",
		} {
			mustBe(t, s.get(wire.HistoryPath+"?"+query), wire.KindInvalid)
		}
		mustBe(t, s.get(wire.HistoryPath+"?resource=r&limit=3", "Accept", wire.NDJSON), wire.KindInvalid)
	})
}

func TestNoHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, nil)
		a := s.get(wire.HistoryPath + "?resource=r")
		mustBe(t, a, wire.KindUnsupported)
		if !strings.Contains(string(a.body), "--history") {
			t.Errorf("%s", a.body)
		}
	})
}

// The history is for who may look at the resource, and tokens are for who may force.
func TestHistoryRights(t *testing.T) {
	for _, test := range []struct {
		may   []access.Verb
		kind  wire.Kind
		token bool
	}{
		{nil, wire.KindDenied, false},
		{[]access.Verb{access.Lock}, wire.KindDenied, false},
		{[]access.Verb{access.Look}, "", false},
		{[]access.Verb{access.Force}, "", true},
	} {
		t.Run(fmt.Sprint(test.may), func(t *testing.T) {
			p := newPerson("ada", map[access.Verb][]string{})
			for _, v := range test.may {
				p.may[v] = []string{"r"}
			}
			identify := func(r *http.Request) (access.Caller, error) {
				if r.Header.Get("Who") == "operator" {
					return operator(r)
				}
				return p, nil
			}
			withHistory(t, identify, func(t *testing.T, s *site) {
				body := wire.AcquireRequest{Resource: "r", TTLMs: 60_000}
				grantOf(t, s.post(wire.AcquirePath, body, "Who", "operator"))
				synctest.Wait()
				mustBe(t, s.get(wire.HistoryPath+"?resource=x"), wire.KindDenied)
				for _, accept := range []string{wire.JSON, wire.NDJSON} {
					a := s.get(wire.HistoryPath+"?resource=r", "Accept", accept)
					mustBe(t, a, test.kind)
					if has := strings.Contains(string(a.body), `"token"`); has != test.token {
						t.Errorf("%s", a.body)
					}
				}
			})
		})
	}
}

// Callers without a name have shares by where they come from, as budgets are.
func TestHistoryShares(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	synctest.Test(t, func(t *testing.T) {
		log, err := historyfile.Open(t.Context(), file, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		s, err := server.New(memlock.New(nil), &server.Options{History: log})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		synctest.Wait()
		shares := make(map[string]bool)
		for i, from := range []string{"192.0.2.1:1000", "192.0.2.2:1000", "192.0.2.1:2000"} {
			body := strings.NewReader(fmt.Sprintf(`{"resource": "r%d"}`, i))
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, wire.AcquirePath, body)
			r.RemoteAddr = from
			r.Header.Set("Content-Type", wire.JSON)
			w := httptest.NewRecorder()
			if s.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatal(w.Body)
			}
		}
		synctest.Wait()
		holds, err := log.Holds(t.Context(), history.Query{})
		for _, h := range holds {
			shares[h.Share] = true
		}
		if err != nil || len(holds) != 3 || len(shares) != 2 || shares[""] {
			t.Errorf("%v, %v", shares, err)
		}
	})
}
