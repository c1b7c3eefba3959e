package dashboard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// forceBody names a hold as its page does.
func forceBody(resource string, id driver.HoldID, token uint64, reason string) string {
	text, _ := json.Marshal(map[string]string{"resource": resource, "ref": wire.RefOf(id), "token": fmt.Sprint(token), "reason": reason})
	return string(text)
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

func TestForce(t *testing.T) {
	as(t, caller{name: "ops", look: "", force: "jobs/"}, func(s *scene) {
		q := s.hold(driver.AcquireRequest{Resource: "jobs/1"})
		token := s.token("jobs/1")
		for body, status := range map[string]int{
			forceBody("jobs/1", q.HoldID, token, " "):                           http.StatusBadRequest,
			forceBody("jobs/1", q.HoldID, 0, "why"):                             http.StatusBadRequest,
			forceBody("", q.HoldID, token, "why"):                               http.StatusBadRequest,
			forceBody("holdfast/server", q.HoldID, token, "why"):                http.StatusBadRequest,
			forceBody("others/1", q.HoldID, token, "why"):                       http.StatusForbidden,
			`{"resource":"jobs/1","ref":"x","token":"1","reason":"w","more":1}`: http.StatusBadRequest,
			forceBody("jobs/1", driver.NewHoldID(), token, "why"):               http.StatusOK, // nothing is done
			forceBody("jobs/1", q.HoldID, token+1, "why"):                       http.StatusOK,
		} {
			if w := s.post("/force", body); w.Code != status {
				s.Errorf("%s: status %d, %s", body, w.Code, w.Body)
			}
			if s.token("jobs/1") != token {
				s.Fatalf("released by %s", body)
			}
		}
		s.events = nil
		if w := s.post("/force", forceBody("jobs/1", q.HoldID, token, "it hangs")); w.Code != http.StatusOK || s.token("jobs/1") != 0 {
			s.Fatalf("status %d, %s", w.Code, w.Body)
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
		if w := s.post("/force", forceBody("jobs/1", q.HoldID, token, "it hangs")); w.Code != http.StatusOK || s.token("jobs/1") == 0 {
			s.Errorf("status %d, %s", w.Code, w.Body)
		}
		time.Sleep(time.Second)
		s.shows("/resource?name=jobs/1", "Token", wire.RefOf(next.HoldID), "Release by force")
	})
}

func TestForceWithoutAudit(t *testing.T) {
	as(t, caller{force: "j"}, func(s *scene) {
		s.fails = errors.New("the disk is full")
		q := s.hold(driver.AcquireRequest{Resource: "j"})
		token := s.token("j")
		if w := s.post("/force", forceBody("j", q.HoldID, token, "it hangs")); w.Code != http.StatusInternalServerError || s.token("j") != token {
			s.Errorf("status %d, %s", w.Code, w.Body)
		}
	})
}

func TestForceNeedsJSON(t *testing.T) {
	as(t, caller{force: "j"}, func(s *scene) {
		q := s.hold(driver.AcquireRequest{Resource: "j"})
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"} {
			if w := s.postAs(kind, "/force", forceBody("j", q.HoldID, s.token("j"), "it hangs")); w.Code != http.StatusUnsupportedMediaType || s.token("j") == 0 {
				s.Errorf("%q: status %d", kind, w.Code)
			}
		}
	})
}
