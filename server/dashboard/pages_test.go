package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/history"
)

func TestNothing(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		s.shows("/", "Nothing is held, and nobody waits.", "!holdfast run", "the store", "!Look at this first")
		s.shows("/resource?name=r", "Nobody held it at the last look.", "Nobody waited at the last look.")
	})
}

// A holder that was killed is what the first page is for.
func TestDeadHolder(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		q := s.hold(driver.AcquireRequest{Resource: "nightly", Details: driver.Details{Owner: "cron", Host: "batch3", Comment: "the report"}})
		s.hold(driver.AcquireRequest{Resource: "other", TTL: 5 * time.Minute})
		for range 3 { // it lives for a while
			time.Sleep(10 * time.Second)
			_, err := s.store.Renew(t.Context(), []driver.RenewRequest{{
				HoldRef: driver.HoldRef{Resource: "nightly", LockID: q.LockID, HoldID: q.HoldID}, TTL: 30 * time.Second,
			}})
			if err != nil {
				s.Fatal(err)
			}
		}
		s.shows("/", "Nothing is stuck. 2 holds; nobody waits.", "nightly")
		s.waitInTurn("nightly", "ada", false)
		time.Sleep(22 * time.Second)
		s.shows("/", "1 resource needs a look.", "stuck nightly cron on batch3 silent holds it exclusively, for 52 s. Time left: 8 s; renewed 22 s ago. Its holder has missed 2 renewals: it was killed",
			"ada has waited for 22 s to hold it exclusively, in any order: the holder is in its way.")
		s.wait("nightly", "bob")
		time.Sleep(time.Second)
		s.shows("/", "2 wait. Longest: ada has waited for 23 s to hold it exclusively, in any order: the holder is in its way.")
		s.shows("/resource?name=nightly", "silent", "was killed or stopped, cannot reach the store", "the report", wire.RefOf(q.HoldID), "!"+q.HoldID.String(), "!Token")
		s.shows("/?only=waited", "nightly", "!other")
		s.shows("/?q=batch", "nightly", "!other")
		s.shows("/?q="+wire.RefOf(q.HoldID), "nightly", "!other")
		s.shows("/?q=nothing", "Nothing matches.")
	})
}

// What has no end and is not renewed is stuck once somebody waits for it, and what was never
// renewed is not: nobody knows whether it is to be.
func TestStuck(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "endless", TTL: driver.Forever})
		s.hold(driver.AcquireRequest{Resource: "short", TTL: 2 * time.Minute})
		time.Sleep(90 * time.Second)
		s.shows("/", "Nothing is stuck. 2 holds; nobody waits.")
		s.wait("endless", "ada")
		s.wait("short", "bob")
		time.Sleep(time.Second)
		s.shows("/", "2 resources need a look.", "stuck endless a client", "It has no end. Nobody renews it", "trouble short a client", "It was never renewed")
	})
}

// A page of a sight that is old counts on.
func TestAgesGoOn(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "r", TTL: time.Minute})
		s.shows("/resource?name=r", "for 0 s", "Time left: 1 min")
		time.Sleep(900 * time.Millisecond) // the store rests
		s.shows("/resource?name=r", "Time left: 59 s")
		if page := s.get("/resource?name=r").Body.String(); !strings.Contains(page, `data-up="900"`) || !strings.Contains(page, `data-down="59100"`) {
			s.Error(page)
		}
	})
}

func TestQueue(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "r", Details: driver.Details{Owner: "eve"}})
		s.wait("r", "first")
		s.wait("r", "second")
		s.shows("/resource?name=r", "first has waited for 0 s to hold it exclusively, in turn: the holder is in its way.",
			"second has waited for 0 s to hold it exclusively, in turn: the holder is in its way, and 1 is served before.")
	})
}

// Nobody sees a resource on which he may not look, in any page.
func TestRights(t *testing.T) {
	as(t, caller{look: "mine/"}, func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "mine/1", LockID: "lock", Details: driver.Details{Owner: "mallory"}})
		s.hold(driver.AcquireRequest{Resource: "others/1", LockID: "lock", Details: driver.Details{Owner: "mallory"}})
		s.wait("others/1", "ada")
		s.shows("/", "Of what you may look at, nothing is stuck. 1 hold; nobody waits.", "mine/1", "!others")
		s.shows("/?q=mallory", "mine/1", "!others")
		page := s.get("/resource?name=mine/1").Body.String()
		if w := s.get("/resource?name=others%2F1"); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "mallory") {
			s.Errorf("status %d: %s", w.Code, w.Body)
		}
		if strings.Contains(page, "data-release") {
			s.Error("it offers a release by force")
		}
	})
}

// Who may look at little is not told that there is no more.
func TestFewRights(t *testing.T) {
	as(t, caller{look: "mine/"}, func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "others/1", LockID: "lock"})
		s.shows("/", "Of what you may look at, nothing is held, and nobody waits.", "!Nothing is held")
		if page := s.get("/").Body.String(); strings.Contains(page, "summary fine") {
			s.Error(page)
		}
	})
	withHistory(t, caller{look: "mine/"}, func(s *scene, k *kept) {
		k.held(time.Minute, time.Second, history.Hold{How: history.Released, Resource: "others/1", Ref: "a"})
		s.shows("/history", "No hold is known that you may look at, as far back")
		s.shows("/history?name=mine%2F1", "No hold is known that you may look at, as far back")
	})
}

// hostile are names that are more than a text to a browser.
var hostile = []string{
	`<img src=x onerror=alert(1)>`, `"><script>alert(1)</script>`, "javascript:alert(1)", "\u202egnp.exe", "a\r\nSet-Cookie: x=y",
}

// harmless fails the test if a page has of such a name what a browser would do.
func (s *scene) harmless(paths []string) {
	s.Helper()
	for _, path := range paths {
		w := s.get(path)
		for _, bad := range []string{"<img", "<script>", "\u202e", "\x1b", "\r", `href="javascript`, `href="//`, `href="/`, "onerror=alert(1)>"} {
			if strings.Contains(w.Body.String(), bad) {
				s.Errorf("%s: %q", path, bad)
			}
		}
		if w.Code != http.StatusOK || len(w.Header()["Set-Cookie"]) > 0 {
			s.Errorf("%s: status %d, header %v", path, w.Code, w.Header())
		}
	}
}

// Whatever a name is, it is a text, and no address leads elsewhere.
func TestHostileNames(t *testing.T) {
	names := append([]string{
		"../../login?next=//evil.example", "{{.}}", "\x1b[31mred", strings.Repeat("长", 341), "a&b=c#d", "`${1}`", "' or 1=1",
	}, hostile...)
	as(t, access.Operator(), func(s *scene) {
		for _, name := range names {
			s.hold(driver.AcquireRequest{Resource: name, Details: driver.Details{Owner: name, Host: name, Comment: name}})
		}
		time.Sleep(time.Second)
		paths := []string{"/"}
		for _, name := range names {
			paths = append(paths, "/resource?"+url.Values{"name": {name}}.Encode(), "/?"+url.Values{"only": {name}}.Encode())
		}
		s.harmless(paths)
		for _, name := range names {
			link := "resource?" + url.Values{"name": {name}}.Encode()
			if !strings.Contains(s.get("/").Body.String(), strings.NewReplacer("&", "&amp;").Replace(link)) {
				s.Errorf("there is no link to %q", name)
			}
		}
	})
}

func TestManyRows(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		for i := range 450 {
			s.hold(driver.AcquireRequest{Resource: fmt.Sprintf("r/%03d", i)})
		}
		s.shows("/", "450 holds", "These are the first 200 of 450: search to see the others.", "r/199", "!r/200")
		s.shows("/?q=r/4", "r/449", "!These are the first")
	})
}

// What a store says of itself may have an address or others' IDs in it.
func TestStoreFails(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "r"})
		s.shows("/", "1 hold")
		s.store.err = errors.New("dial tcp 10.1.2.3: secret")
		time.Sleep(time.Minute)
		s.shows("/", "got no answer", "The store cannot be looked at: the server's log says why.", "Below is what was seen 1 min ago.", "!ext look", "1 hold", "!secret", "!10.1")
		time.Sleep(2 * time.Second)
		for _, path := range []string{"/", "/resource?name=r", "/history", "/release?name=r", "/resource?name="} {
			s.says(path, "No call of the store has been answered for")
		}
	})
}

// Nothing of an old look is said to be so now, nor shown as if all were well.
func TestOldLook(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "short", TTL: 20 * time.Second})
		q := s.hold(driver.AcquireRequest{Resource: "long", TTL: 10 * time.Minute, LockID: "lock"})
		if _, err := s.store.Renew(t.Context(), []driver.RenewRequest{{
			HoldRef: driver.HoldRef{Resource: "long", LockID: "lock", HoldID: q.HoldID}, TTL: 10 * time.Minute,
		}}); err != nil {
			s.Fatal(err)
		}
		s.shows("/", "Nothing is stuck.")
		s.store.err = errors.New("no answer")
		time.Sleep(time.Minute)
		s.shows("/", "Nobody knows what is held now. When it was seen last: 2 holds; nobody waits.", "!Nothing is stuck", "watch short", "none, unless it was renewed",
			"!watch long")
		s.shows("/resource?name=short", "over holds it exclusively", "Time left: none, unless it was renewed")
		s.shows("/resource?name=long", "unknown", "Nobody knows how it is now", "renewed 1 min ago", "Time left: 9 min", "!Its holder renews it", "!alive")
		s.shows("/resource?name=free", "Nobody held it at the last look.", "Nobody waited at the last look.", "!Nobody holds it")
		for _, path := range []string{"/", "/resource?name=short", "/resource?name=long"} {
			for _, green := range []string{"summary fine", "badge fine", "pulse alive", "pulse new"} {
				if strings.Contains(s.get(path).Body.String(), green) {
					s.Errorf("%s: %q", path, green)
				}
			}
		}
		s.store.err = nil
		time.Sleep(time.Minute)
		s.shows("/", "Nothing is stuck. 1 hold")
	})
}

// Who waits for the store's answer learns when it is asked again.
func TestNextLook(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		s.store.takes = 2 * time.Second
		s.shows("/", "This is how it was 2 s ago. The next look is in 20 s: the store rests ten times as long as a look takes, 20 s.")
		time.Sleep(7 * time.Second)
		s.shows("/", "This is how it was 9 s ago. The next look is in 13 s")
		s.store.takes = 0
		time.Sleep(time.Minute)
		s.shows("/", "Looked 0 s ago. Next look in 1 s.")
	})
	as(t, access.Onlooker(), func(s *scene) {
		s.store.takes, s.store.err = 2*time.Second, errors.New("no answer")
		s.shows("/", "Nothing was seen yet. The next look is in 20 s")
	})
}

func TestHeaders(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		for _, path := range []string{"/", "/resource?name=x", "/app.css", "/app.js", "/nothing"} {
			h := s.get(path).Header()
			for name, value := range map[string]string{
				"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			} {
				if h.Get(name) != value {
					s.Errorf("%s: %s is %q", path, name, h.Get(name))
				}
			}
			if p := h.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") || strings.Contains(p, "http") {
				s.Errorf("%s: policy %q", path, p)
			}
		}
		for path, status := range map[string]int{"/nothing": 404, "/resource": 400, "/resource?name=": 400, "/login": 404, "/force": 405, "/../x": 404} {
			if w := s.get(path); w.Code != status {
				s.Errorf("%s: status %d", path, w.Code)
			}
		}
	})
}

// Before the store has answered, nothing is said to be free.
func TestNotSeenYet(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		s.store.err = errors.New("no answer")
		for _, path := range []string{"/", "/resource?name=r"} {
			s.shows(path, "Nobody knows yet what is held", "No lock is granted until it is prepared.", "!Nothing is held", "!Nobody holds it")
		}
	})
}

// What only its holder knows is not said of it.
func TestPulse(t *testing.T) {
	for says, h := range map[string]struct {
		ttl           time.Duration
		renewed, then time.Duration // when it was renewed, and how much later the page is looked at
	}{
		"It is not due to be renewed yet": {30 * time.Second, 0, 9 * time.Second},
		"It was never renewed":            {30 * time.Second, 0, 15 * time.Second},
		"alive holds it exclusively, for 20 s. Time left: 20 s; renewed 10 s ago.": {30 * time.Second, 10 * time.Second, 10 * time.Second},
		"Its holder has missed a renewal.":                                         {30 * time.Second, 10 * time.Second, 12 * time.Second},
		"Its holder has missed 2 renewals":                                         {30 * time.Second, 10 * time.Second, 23 * time.Second},
		"alive holds it exclusively, for 50 s. It has no end; renewed 40 s ago.":   {driver.Forever, 10 * time.Second, 40 * time.Second},
		"Nobody renews it: its holder is gone":                                     {driver.Forever, 10 * time.Second, time.Hour},
	} {
		as(t, access.Onlooker(), func(s *scene) {
			q := s.hold(driver.AcquireRequest{Resource: "r", TTL: h.ttl})
			if h.renewed > 0 {
				time.Sleep(h.renewed)
				_, err := s.store.Renew(t.Context(), []driver.RenewRequest{{
					HoldRef: driver.HoldRef{Resource: "r", LockID: q.LockID, HoldID: q.HoldID}, TTL: h.ttl,
				}})
				if err != nil {
					s.Fatal(err)
				}
			}
			time.Sleep(h.then)
			s.shows("/resource?name=r", says)
		})
	}
}
