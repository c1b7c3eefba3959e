package serve

import (
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/audit"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/front"
)

const metricsPath = "/metrics"

// ServeHTTP serves the locks, the metrics and the dashboard. A person whose browser asks for what
// is not there gets a page that says so, and a program a refusal.
func (r *running) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch {
	case q.URL.Path == metricsPath:
		r.meters.ServeHTTP(w, q)
	case r.isForPages(q):
		r.pages.ServeHTTP(w, q)
	default:
		r.server.ServeHTTP(w, q)
	}
}

// isForPages reports whether the dashboard answers the request: there is a page at its path,
// or nothing at all, and a browser wants a page. Links of pages are for paths of one level.
func (r *running) isForPages(q *http.Request) bool {
	if r.pages.Serves(q.URL.Path) {
		return true
	}
	return q.Method == http.MethodGet && !r.server.Serves(q.URL.Path) && q.URL.Path != metricsPath && strings.Count(q.URL.Path, "/") == 1 &&
		strings.Contains(q.Header.Get("Accept"), "text/html")
}

// openPages makes the dashboard.
func (r *running) openPages() (err error) {
	opts := &dashboard.Options{
		Identify: front.CallerOf, Looker: r.looker, Health: r.health, History: r.history, Budget: r.budget, Audit: r.keep,
		Name: r.Store.Name(), Version: r.Version, Logger: r.log,
	}
	if r.audit != nil {
		opts.AuditErr = r.audit.Err
	}
	if r.auth != nil {
		opts.Login, opts.AuthErr = r, r.auth.Err
	}
	r.pages, err = dashboard.New(r.store, opts)
	return err
}

// browsers returns identify, but at the pages of the dashboard also cookies count.
func (r *running) browsers(identify access.Identify) access.Identify {
	if r.auth == nil {
		return identify
	}
	return func(q *http.Request) (access.Caller, error) {
		if r.isForPages(q) {
			return r.auth.IdentifyBrowser(q)
		}
		return identify(q)
	}
}

// SignIn implements dashboard.Login. Only tokens that are wrong count against an address.
func (r *running) SignIn(w http.ResponseWriter, q *http.Request, token string) error {
	cookie, caller, err := r.auth.SignIn(token)
	if err != nil {
		if !r.front.Failed(q) {
			return dashboard.ErrTooOften
		}
		r.noteLogin(q, audit.Event{Outcome: "denied", Reason: err.Error()})
		return err
	}
	r.noteLogin(q, audit.Event{Outcome: "granted", Caller: caller})
	http.SetCookie(w, cookie)
	return nil
}

// SignOut implements dashboard.Login.
func (r *running) SignOut(w http.ResponseWriter) { http.SetCookie(w, access.SignOut()) }
