package dashboard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
)

// named is a hold as its page names it.
func named(resource string, id driver.HoldID, token uint64) map[string]string {
	return map[string]string{"resource": resource, "ref": wire.RefOf(id), "token": fmt.Sprint(token)}
}

// forced releases holds as a page does, and returns what became of each.
func (s *scene) forced(reason string, holds ...map[string]string) (says []string) {
	s.Helper()
	body, _ := json.Marshal(map[string]any{"reason": reason, "holds": holds})
	w := s.post("/force", string(body))
	var answer struct {
		Error   string
		Results []struct {
			OK   bool
			Says string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || (w.Code == http.StatusOK) != (answer.Error == "") {
		s.Errorf("status %d: %s", w.Code, w.Body)
	}
	if answer.Error != "" {
		return []string{answer.Error}
	}
	for _, r := range answer.Results {
		says = append(says, fmt.Sprint(r.OK, " ", r.Says))
	}
	return says
}

func (s *scene) token(resource string) (token uint64) {
	s.Helper()
	for h, err := range s.store.List(s.Context(), driver.Filter{Resource: resource}) {
		if err != nil {
			s.Fatal(err)
		}
		token = h.Token
	}
	return token
}

// begin fails the test unless the texts begin so.
func (s *scene) begin(all []string, with ...string) {
	s.Helper()
	if len(all) != len(with) {
		s.Fatalf("%q", all)
	}
	for i := range all {
		if !strings.HasPrefix(all[i], with[i]) {
			s.Errorf("%d: %q, want %q", i, all[i], with[i])
		}
	}
}

func TestForce(t *testing.T) {
	as(t, caller{name: "ops", look: "", force: "jobs/"}, func(s *scene) {
		q := s.hold(driver.AcquireRequest{Resource: "jobs/1"})
		token := s.token("jobs/1")
		is := named("jobs/1", q.HoldID, token)
		for _, c := range []struct {
			reason, says string
			hold         map[string]string
		}{
			{" ", "Say why.", is},
			{strings.Repeat("x", 2000), "The reason is too long", is},
			{"why", "false The page named no hold", named("jobs/1", q.HoldID, 0)},
			{"why", "false The page named no hold", named("", q.HoldID, token)},
			{"why", "false The page named no hold", named("holdfast/server", q.HoldID, token)},
			{"why", "false You have no right", named("others/1", q.HoldID, token)},
			{"why", "true That hold has ended by itself", named("jobs/1", driver.NewHoldID(), token)},
			{"why", "true That hold has ended by itself", named("jobs/1", q.HoldID, token+1)},
		} {
			if s.begin(s.forced(c.reason, c.hold), c.says); s.token("jobs/1") != token {
				s.Fatalf("released by %v", c)
			}
		}
		for _, body := range []string{`{"reason":"w","holds":[],"more":1}`, `{"reason":"w","holds":[]}`, `{"reason":"w"}`, "x"} {
			if w := s.post("/force", body); w.Code != http.StatusBadRequest {
				s.Errorf("%s: status %d", body, w.Code)
			}
		}
		s.begin(s.forced("why", slices.Repeat([]map[string]string{is}, 201)...), "Choose from 1 to 200 holds.")
		s.events = nil
		s.begin(s.forced("it hangs", is), "true Released.")
		if s.token("jobs/1") != 0 {
			s.Fatal("it is held")
		}
		var outcomes []string
		for _, e := range s.events {
			outcomes = append(outcomes, e.Outcome)
			if e.Action != "force-release" || e.Caller != "ops" || e.Resource != "jobs/1" || e.Ref != wire.RefOf(q.HoldID) || e.Token != token || e.Reason != "it hangs" {
				s.Errorf("the audit has %+v", e)
			}
		}
		if !slices.Equal(outcomes, []string{"allowed", "released"}) {
			s.Errorf("the audit has %v", outcomes)
		}
		// A page that is old does not release the next hold.
		next := s.hold(driver.AcquireRequest{Resource: "jobs/1"})
		s.begin(s.forced("it hangs", is), "true That hold has ended by itself")
		s.shows("/resource?name=jobs/1", "Token", wire.RefOf(next.HoldID), "Release…", "!"+wire.RefOf(q.HoldID))
	})
}

// What was released is on no page any more, although the store rests: nobody reads "Released."
// beside the same hold with its button. Nor is it hidden for longer: the next look shows all.
func TestShownAtOnceAfterForce(t *testing.T) {
	as(t, access.Operator(), func(s *scene) {
		q := s.hold(driver.AcquireRequest{Resource: "nightly", TTL: time.Hour, Details: driver.Details{Owner: "ada"}})
		s.hold(driver.AcquireRequest{Resource: "other", TTL: time.Hour})
		s.store.takes = 5 * time.Second
		for range 2 { // the next look is far away
			s.get("/")
			time.Sleep(5 * time.Second)
		}
		s.store.takes = 0
		s.shows("/", "ada", "2 holds", "next look is in 4")
		s.wait("nightly", "bob")
		s.begin(s.forced("it hangs", named("nightly", q.HoldID, s.token("nightly"))), "true Released.")
		s.shows("/", "!ada", "1 hold; 1 waits", "nightly free", "next look is in 4")
		s.shows("/resource?name=nightly", "!ada", "Nobody held it at the last look.", "bob has waited", "nothing is in its way", "This is how it was 0 s ago.")
		s.shows("/release?name=nightly", "Nothing to release")
		time.Sleep(2 * time.Second)
		s.shows("/resource?name=nightly", "This is how it was 2 s ago.", "bob has waited for 2 s to hold it exclusively")
		time.Sleep(time.Minute)
		s.hold(driver.AcquireRequest{Resource: "nightly", Details: driver.Details{Owner: "eve"}})
		s.shows("/", "eve", "!bob", "2 holds", "Looked 0 s ago.")
	})
}

// All holds of a host are listed, released one by one, and each says what became of it.
func TestForceHost(t *testing.T) {
	as(t, caller{name: "ops", look: "", force: "jobs/"}, func(s *scene) {
		var names []map[string]string
		for i, resource := range []string{"jobs/1", "jobs/2", "others/1", "jobs/3"} {
			q := s.hold(driver.AcquireRequest{
				Resource: resource, Mode: driver.Shared, TTL: time.Hour, Details: driver.Details{Owner: fmt.Sprint("o", i), Host: "web1"},
			})
			names = append(names, named(resource, q.HoldID, s.token(resource)))
		}
		s.hold(driver.AcquireRequest{Resource: "jobs/1", Mode: driver.Shared, TTL: time.Hour, Details: driver.Details{Owner: "alive", Host: "web10"}})
		q := s.hold(driver.AcquireRequest{Resource: "jobs/4", TTL: time.Hour})
		s.shows("/", "!Release all") // that has no name
		s.release(q)
		time.Sleep(time.Second)
		s.shows("/?q=web1", "Release all 3 holds of web1…", "others/1")
		s.shows("/?q=web", "!Release all", "search for the whole name of one host")
		s.shows("/?q=eb10", "Release all 1 hold of web10…")
		s.shows("/release?host=web1", "These holders say that they run on web1. Nobody has checked that.", "jobs/1 o0 on web1 new holds it shared, for 1 s.", "o1 on", "o2 on", "o3 on", "!alive", "holdfast unlock --force RESOURCE does it",
			"This does not stop the old holder", "holdfast unlock --force")
		page := s.get("/release?host=web1").Body.String()
		for _, n := range names {
			value := url.Values{"resource": {n["resource"]}, "ref": {n["ref"]}, "token": {n["token"]}}.Encode()
			if !strings.Contains(page, strings.ReplaceAll(value, "&", "&amp;")) {
				s.Errorf("there is no %s in %s", value, page)
			}
		}
		names[3]["ref"] = "00000000"
		s.begin(s.forced("its host is gone", names...), "true Released.", "true Released.", "false You have no right", "true That hold has ended")
		s.shows("/", "3 holds", "!o0", "!o1", "o2 on web1", "alive")
		outcomes := map[string]int{}
		for _, e := range s.events {
			outcomes[e.Outcome]++
		}
		if fmt.Sprint(outcomes) != "map[allowed:2 denied:1 not-found:1 released:2]" {
			s.Errorf("the audit has %v", outcomes)
		}
	})
}

// The dialog repeats the hold that was chosen. Of several holders of a resource none is chosen.
func TestReleasePage(t *testing.T) {
	as(t, access.Operator(), func(s *scene) {
		var refs []string
		for _, owner := range []string{"ada", "bob"} {
			q := s.hold(driver.AcquireRequest{Resource: "r", Mode: driver.Shared, Limit: 5, Details: driver.Details{Owner: owner}})
			refs = append(refs, wire.RefOf(q.HoldID))
		}
		s.shows("/release?name=r&ref="+refs[0], "r ada new holds it as one of 5, for 0 s.", "For a ticket: "+refs[0], "!bob", "Why?")
		for path, checked := range map[string]int{"/release?name=r&ref=" + refs[0]: 1, "/release?name=r": 0} {
			if page := s.get(path).Body.String(); strings.Count(page, " checked") != checked {
				s.Errorf("%s: %s", path, page)
			}
		}
		s.shows("/release?name=r", "ada", "bob")
		for _, path := range []string{"/release", "/release?name=other", "/release?name=r&ref=00000000", "/release?host=", "/release?host=web1"} {
			s.shows(path, "Nothing to release")
		}
	})
	as(t, caller{look: "mine/"}, func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "others/1", Details: driver.Details{Owner: "mallory", Host: "web1"}})
		s.shows("/release?name=others/1", "!mallory")
		s.shows("/release?host=web1", "!mallory")
	})
}

func TestForceWithoutAudit(t *testing.T) {
	as(t, caller{force: "j"}, func(s *scene) {
		s.fails = errors.New("the disk is full")
		q := s.hold(driver.AcquireRequest{Resource: "j"})
		token := s.token("j")
		s.begin(s.forced("it hangs", named("j", q.HoldID, token)), "false The server cannot write its audit")
		if s.token("j") != token {
			s.Error("it is released")
		}
	})
}

func TestForceNeedsJSON(t *testing.T) {
	as(t, caller{force: "j"}, func(s *scene) {
		q := s.hold(driver.AcquireRequest{Resource: "j"})
		body, _ := json.Marshal(map[string]any{"reason": "it hangs", "holds": []any{named("j", q.HoldID, s.token("j"))}})
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"} {
			if w := s.postAs(kind, "/force", string(body)); w.Code != http.StatusUnsupportedMediaType || s.token("j") == 0 {
				s.Errorf("%q: status %d", kind, w.Code)
			}
		}
	})
}

// Who cannot wait for the next look looks at one resource at once, once a second.
func TestLookNow(t *testing.T) {
	as(t, caller{name: "ada", look: "mine/"}, func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "mine/1", TTL: time.Hour, Details: driver.Details{Owner: "ada"}})
		s.store.takes = 2 * time.Second
		s.get("/")
		s.store.takes = 0
		s.hold(driver.AcquireRequest{Resource: "mine/2", TTL: time.Hour, Details: driver.Details{Owner: "bob"}})
		look := func(resource string, status int) {
			s.Helper()
			if w := s.post("/look", fmt.Sprintf(`{"resource":%q}`, resource)); w.Code != status {
				s.Errorf("%q: status %d, %s", resource, w.Code, w.Body)
			}
		}
		s.shows("/resource?name=mine/2", "Nobody held it at the last look.", "Look now")
		look("mine/2", http.StatusOK)
		look("mine/2", http.StatusTooManyRequests)
		s.shows("/resource?name=mine/2", "bob new holds it exclusively", "This is how it was")
		s.shows("/", "2 holds", "bob")
		look("others/1", http.StatusForbidden)
		look("", http.StatusBadRequest)
		time.Sleep(time.Second)
		look("mine/2", http.StatusOK)
		time.Sleep(time.Second)
		s.store.err = errors.New("10.1.2.3: secret")
		look("mine/2", http.StatusServiceUnavailable)
		s.shows("/resource?name=mine/2", "bob new holds it exclusively", "!secret")
	})
}
