package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/health"
)

// served runs the test with the health of a server whose store is prepared.
func served(t *testing.T, who access.Caller, test func(*scene, *health.Log)) {
	t.Helper()
	var known *health.Log
	with(t, func() dashboard.Options {
		known = health.New()
		known.Prepared()
		known.StoreCall(context.Background(), "init", 0, nil)
		return dashboard.Options{Health: known, Version: "holdfast 1.2.3", Identify: func(*http.Request) (access.Caller, error) { return who, nil }}
	}, func(s *scene) { test(s, known) })
}

// What makes a server refuse locks is in the first line of each page, and then nothing on it is
// green, although looks go on and see nothing wrong.
func TestNothingIsGreenWhileLocksAreRefused(t *testing.T) {
	broken := errors.New("dial tcp 10.1.2.3: secret")
	for says, makes := range map[string]func(*health.Log){
		"The store is another one, or has lost its data": func(h *health.Log) { h.Replaced(24*time.Hour, false) },
		"No lock is granted until it is prepared.":       func(h *health.Log) { h.Preparing(broken) },
		"This server is ending":                          func(h *health.Log) { h.Ending() },
		"No acquire has been answered for 1 s, although the store answers other calls": func(h *health.Log) {
			h.StoreCall(context.Background(), "acquire", 0, fmt.Errorf("%w: secret", driver.ErrUnusable))
		},
	} {
		served(t, access.Operator(), func(s *scene, known *health.Log) {
			q := s.hold(driver.AcquireRequest{Resource: "r", LockID: "lock", TTL: time.Hour})
			_, err := s.store.Renew(s.Context(), []driver.RenewRequest{{HoldRef: driver.HoldRef{Resource: "r", LockID: "lock", HoldID: q.HoldID}, TTL: time.Hour}})
			if err != nil {
				s.Fatal(err)
			}
			paths := []string{"/", "/resource?name=r", "/history", "/release?name=r"}
			for _, path := range paths {
				if page := s.get(path).Body.String(); strings.Contains(page, `class="doubt"`) {
					s.Errorf("%s: %s", path, page)
				}
			}
			s.shows("/", "Nothing is stuck.", "Looked 0 s ago.")
			makes(known)
			time.Sleep(time.Second)
			for _, path := range paths {
				s.says(path, says)
				// The style sheet makes all of such a page grey that is green else.
				if page := s.get(path).Body.String(); !strings.Contains(page, `class="doubt"`) || strings.Contains(page, "summary fine") || strings.Contains(page, "secret") {
					s.Errorf("%s: %s", path, page)
				}
			}
			s.shows("/", "1 hold; nobody waits.", "!Nothing is stuck")
			if css := s.get("/app.css").Body.String(); !strings.Contains(css, ".doubt { --fine: var(--soft);") {
				s.Error("the style sheet does not make it grey")
			}
		})
	}
}

// Calls that fail while others are answered are said, and locks go on.
func TestSomeCallsFail(t *testing.T) {
	served(t, access.Onlooker(), func(s *scene, known *health.Log) {
		s.shows("/", "!got no answer")
		known.StoreCall(context.Background(), "renew", 0, nil)
		known.StoreCall(context.Background(), "renew", 0, errors.New("broken"))
		known.StoreCall(context.Background(), "renew", 0, nil)
		time.Sleep(time.Second)
		s.says("/", "got no answer")
		if page := s.get("/").Body.String(); !strings.Contains(page, "summary watch") || strings.Contains(page, `class="doubt"`) {
			s.Error(page)
		}
	})
}

// A look that is slow is not said to have failed.
func TestSlowIsNotFailed(t *testing.T) {
	served(t, access.Onlooker(), func(s *scene, known *health.Log) {
		s.hold(driver.AcquireRequest{Resource: "r", TTL: time.Hour})
		s.shows("/", "Nothing is stuck.")
		s.store.err = context.DeadlineExceeded
		time.Sleep(time.Minute)
		known.StoreCall(context.Background(), "renew", 0, nil)
		s.says("/", "A look at the store was not answered in time: it is slow, or does not answer at all. That is so for 0 s already. Below is what was seen 1 min ago.")
		s.shows("/", "!The store cannot be looked at", "!No call", "Nobody knows what is held now.")
	})
}

// An open page learns of a store that fails although the next look is far away.
func TestEventOfHealth(t *testing.T) {
	served(t, access.Onlooker(), func(s *scene, known *health.Log) {
		s.store.takes = 10 * time.Second // so that looks are rare
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		time.AfterFunc(30*time.Second, func() { known.Replaced(time.Hour, false) })
		w := httptest.NewRecorder()
		s.pages.ServeHTTP(deadlines{w}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil))
		if n := strings.Count(w.Body.String(), "event: sight"); n != 2 {
			s.Errorf("%d events: %s", n, w.Body)
		}
	})
}

// The foot of each page says which server it is, to callers that it knows.
func TestWhichServer(t *testing.T) {
	served(t, access.Onlooker(), func(s *scene, _ *health.Log) {
		time.Sleep(3 * time.Hour)
		for _, path := range []string{"/", "/resource?name=r", "/history"} {
			s.shows(path, "holdfast 1.2.3 on ", ", up for 3 h. The store is the store.")
		}
	})
	with(t, func() dashboard.Options {
		return dashboard.Options{Version: "1.2.3", Identify: func(*http.Request) (access.Caller, error) { return nil, access.ErrAnonymous }}
	}, func(s *scene) {
		if page := s.get("/").Body.String(); strings.Contains(page, "1.2.3") || strings.Contains(page, "The store is") {
			s.Error(page)
		}
	})
}
