package dashboard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/dashboard"
)

// session is a caller that is known for a time only.
type session struct {
	access.Caller
	until time.Time
}

func (s session) Until() time.Time { return s.until }

// A stream ends with the session, whatever the store does meanwhile.
func TestStreamEndsWithSession(t *testing.T) {
	for name, c := range map[string]struct{ lasts, want time.Duration }{
		"soon": {20500 * time.Millisecond, 20500 * time.Millisecond}, "a session": {8 * time.Hour, 8 * time.Hour},
		"no session": {0, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func() dashboard.Options {
				who := session{Caller: access.Onlooker()}
				if c.lasts > 0 {
					who.until = time.Now().Add(c.lasts)
				}
				return dashboard.Options{Identify: func(*http.Request) (access.Caller, error) { return who, nil }}
			}, func(s *scene) {
				s.store.takes = 10 * time.Second // so that looks are rare
				ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
				defer cancel()
				began, w := time.Now(), httptest.NewRecorder()
				s.pages.ServeHTTP(deadlines{w}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil))
				if took := time.Since(began); took != c.want {
					t.Errorf("the stream ended after %v", took)
				}
				if !strings.Contains(w.Body.String(), "event: sight") {
					t.Errorf("it said %q", w.Body)
				}
			})
		})
	}
}

// deadlines is a recorder as http.ResponseController wants it.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }
