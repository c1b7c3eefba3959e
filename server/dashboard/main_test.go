package dashboard_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/dashboard"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// caller may look at what begins with one prefix, and force what begins with another.
type caller struct {
	access.Caller
	name, look, force string
}

func (c caller) Name() string { return c.name }

func (c caller) May(v access.Verb, resource string) bool {
	switch v {
	case access.Look:
		return strings.HasPrefix(resource, c.look)
	case access.Force:
		return c.force != "" && strings.HasPrefix(resource, c.force)
	}
	return false
}

func (caller) Changed() <-chan struct{} { return nil }

func (c caller) MayAll(v access.Verb) bool { return c.May(v, "") }

// scene is a store that somebody looks at, in a bubble.
type scene struct {
	*testing.T
	store  *failing
	pages  *dashboard.Dashboard
	events []server.Event
	fails  error // of the audit
}

// failing is a store whose lists may fail.
type failing struct {
	*memlock.Store
	err   error
	takes time.Duration
}

func (f *failing) List(ctx context.Context, filter driver.Filter) iter.Seq2[driver.Status, error] {
	time.Sleep(f.takes)
	if f.err != nil {
		return func(yield func(driver.Status, error) bool) { yield(driver.Status{}, f.err) }
	}
	return f.Store.List(ctx, filter)
}

// as runs the test, as that caller.
func as(t *testing.T, who access.Caller, test func(*scene)) {
	t.Helper()
	with(t, func() dashboard.Options {
		return dashboard.Options{Identify: func(*http.Request) (access.Caller, error) { return who, nil }}
	}, test)
}

// with runs the test, with options that are made in its bubble.
func with(t *testing.T, opts func() dashboard.Options, test func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, store: &failing{Store: memlock.New(nil)}}
		o := opts()
		o.Name = "the store"
		o.Audit = func(e server.Event) error {
			s.events = append(s.events, e)
			return s.fails
		}
		pages, err := dashboard.New(s.store, &o)
		if err != nil {
			t.Fatal(err)
		}
		defer pages.Close()
		s.pages = pages
		test(s)
	})
}

// hold makes a hold.
func (s *scene) hold(q driver.AcquireRequest) driver.AcquireRequest {
	s.Helper()
	q.HoldID = driver.NewHoldID()
	if q.LockID == "" {
		q.LockID = q.HoldID.String()
	}
	if q.TTL == 0 {
		q.TTL = 30 * time.Second
	}
	if _, err := s.store.Acquire(context.Background(), q); err != nil {
		s.Fatal(err)
	}
	return q
}

func (s *scene) release(q driver.AcquireRequest) {
	s.Helper()
	ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
	if _, err := s.store.Release(context.Background(), []driver.ReleaseRequest{{HoldRef: ref}}); err != nil {
		s.Fatal(err)
	}
}

// wait takes a place in a queue, in turn.
func (s *scene) wait(resource, owner string) {
	s.Helper()
	s.waitInTurn(resource, owner, true)
}

// waitInTurn takes a place in a queue, of one that waits in turn or in any order.
func (s *scene) waitInTurn(resource, owner string, fair bool) {
	s.Helper()
	id := driver.NewHoldID()
	_, err := s.store.Acquire(context.Background(), driver.AcquireRequest{
		Resource: resource, LockID: id.String(), HoldID: id, TTL: time.Minute, Details: driver.Details{Owner: owner},
		Place: driver.NewPlaceID(), Fair: fair,
	})
	if err == nil {
		s.Fatal("it was granted")
	}
}

// get returns a page.
func (s *scene) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil))
	return w
}

// post sends what a page sends.
func (s *scene) post(path, body string) *httptest.ResponseRecorder {
	return s.postAs("application/json", path, body)
}

func (s *scene) postAs(kind, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, r)
	return w
}

// shows fails the test unless the page has all of the texts. One that begins with "!" must
// not be in it.
func (s *scene) shows(path string, texts ...string) {
	s.Helper()
	w := s.get(path)
	if w.Code != http.StatusOK {
		s.Errorf("%s: status %d", path, w.Code)
	}
	page := plain(w.Body.String())
	for _, text := range texts {
		not, isNot := strings.CutPrefix(text, "!")
		if strings.Contains(page, not) == isNot {
			s.Errorf("%s: %q, in %s", path, text, page)
		}
	}
}

// says fails the test unless the first line of the page has the text, whatever its status.
func (s *scene) says(path, text string) {
	s.Helper()
	_, line, _ := strings.Cut(s.get(path).Body.String(), `<section id="now"`)
	line, _, _ = strings.Cut(line, "<main")
	if !strings.Contains(plain(line), text) {
		s.Errorf("%s: %q, in %s", path, text, plain(line))
	}
}

// block are elements that begin a line, or a cell.
var block = regexp.MustCompile(`^</?(td|th|dt|dd|p|h[1-6]|li|div|section|span)\b`)

// plain is the text of a page without its elements.
func plain(page string) string {
	var b strings.Builder
	in := false
	for i, r := range page {
		switch {
		case r == '<':
			in = true
			if block.MatchString(page[i:min(i+6, len(page))]) {
				b.WriteByte(' ')
			}
		case r == '>':
			in = false
		case !in:
			b.WriteRune(r)
		}
	}
	return strings.Join(strings.Fields(strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&amp;", "&", "&lt;", "<", "&gt;", ">").Replace(b.String())), " ")
}
