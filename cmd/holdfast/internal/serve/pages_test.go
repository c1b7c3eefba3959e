package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/dashboard"
)

// Where there is nothing a browser gets a page, and a program a refusal.
func TestMistyped(t *testing.T) {
	store := memlock.New(nil)
	locks, err := server.New(store, nil)
	check(t, err)
	defer locks.Close()
	pages, err := dashboard.New(store, nil)
	check(t, err)
	defer pages.Close()
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		method, path, accept string
		code                 int
		kind                 string
	}{
		{http.MethodGet, "/nosuchpage", browser, http.StatusNotFound, "text/html"},
		{http.MethodGet, "/no/such/page", browser, http.StatusNotFound, "application/problem+json"},
		{http.MethodGet, "/nosuchpage", "*/*", http.StatusNotFound, "application/problem+json"},
		{http.MethodPost, "/nosuchpage", browser, http.StatusNotFound, "application/problem+json"},
		{http.MethodGet, "/v1/nothing", browser, http.StatusNotFound, "application/problem+json"},
		{http.MethodGet, "/openapi.yaml", browser, http.StatusOK, "application/yaml"},
		{http.MethodGet, "/history", "", http.StatusOK, "text/html"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		(&running{server: locks, pages: pages}).ServeHTTP(w, r)
		if w.Code != c.code || !strings.HasPrefix(w.Header().Get("Content-Type"), c.kind) {
			t.Errorf("%s %s for %q: status %d, %s", c.method, c.path, c.accept, w.Code, w.Header().Get("Content-Type"))
		}
	}
}
