package browser

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/sight"
)

// patience limits how long a test waits for a page, on a busy machine.
const patience = time.Minute

// chromium returns the path of the browser. If there is none it skips the test, or fails it if
// HOLDFAST_REQUIRE has the word browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("HOLDFAST_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	skipOrFail(t, "browser", "there is no chromium in PATH, nor at HOLDFAST_CHROMIUM")
	return ""
}

// skipOrFail skips the test, or fails it if HOLDFAST_REQUIRE has the word.
func skipOrFail(t *testing.T, word, why string) {
	t.Helper()
	if slices.Contains(strings.FieldsFunc(os.Getenv("HOLDFAST_REQUIRE"), func(c rune) bool { return c == ',' || c == ' ' }), word) {
		t.Fatal(why)
	}
	t.Skip(why)
}

// browser is a browser with one window.
type browser struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string // that the page logged and the test does not expect
}

// open starts a browser with a window. An error that a page logs fails the test, unless it
// contains one of the expected texts.
func open(t *testing.T, width, height int, expected ...string) *browser {
	t.Helper()
	path := chromium(t)
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.WindowSize(width, height), chromedp.UserDataDir(t.TempDir()),
		chromedp.Env("TMPDIR=" + scratch), // a killed browser leaves a folder there
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true),
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	b := &browser{T: t}
	ctx, cancel := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(options...), chromedp.WithListener(func(ev any) {
		var said string
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			said = fmt.Sprintf("%+v", e.ExceptionDetails)
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" {
				said = fmt.Sprintf("%+v", e.Args)
			}
		}
		if said != "" && !slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(said, text) }) {
			b.mu.Lock()
			b.errors = append(b.errors, said)
			b.mu.Unlock()
		}
	}))
	b.ctx = ctx
	// The browser lives as long as the context of the first call.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, said := range b.errors {
			t.Errorf("the page logged %s", said)
		}
	})
	return b
}

// do runs actions that return nothing.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.Fatalf("%v; the page is: %s", err, b.text())
	}
}

// visit opens an address.
func (b *browser) visit(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url))
}

// eval returns the value of a JavaScript expression in the page.
func eval[T any](b *browser, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// text returns the text that a reader sees.
func (b *browser) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText.replace(/\s+/g, " ")`))
	if err != nil {
		return err.Error()
	}
	return value
}

// shows waits until the page contains the texts.
func (b *browser) shows(texts ...string) {
	b.Helper()
	end := time.Now().Add(patience)
	for {
		page := b.text()
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(page, text) }) {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%q is not all in %s", texts, page)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *browser, method cdp.Command[P, R], params P) R {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, method, params)
	if err != nil {
		b.Fatal(err)
	}
	return result
}

// dark switches the colour scheme of the page.
func (b *browser) dark(on bool) {
	b.Helper()
	value := map[bool]string{true: "dark", false: "light"}[on]
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}},
	})
}

// scene is a dashboard of a store in memory.
type scene struct {
	t       testing.TB
	store   *memlock.Store
	history *fakeHistory
	looks   atomic.Int64 // how often the dashboard has looked at the store
	takes   atomic.Int64 // how long a list of all takes
	known   *health.Log
	url     string
	who     access.Caller // of the next requests
	mu      sync.Mutex
}

func newScene(t testing.TB, who access.Caller) *scene {
	s := &scene{t: t, store: memlock.New(nil), who: who, history: newFakeHistory()}
	log, err := history.New(t.Context(), s.history, &history.Options{Name: "server-1"})
	if err != nil {
		t.Fatal(err)
	}
	calls := health.New()
	s.known = calls
	store := slow{s.store, &s.takes}
	looker := sight.New(store, &sight.Options{StoreCall: func(ctx context.Context, op string, took time.Duration, err error) {
		calls.StoreCall(ctx, op, took, err)
		if op == "list" {
			s.looks.Add(1)
		}
	}})
	pages, err := dashboard.New(store, &dashboard.Options{Name: "a store", Version: "holdfast 1.2.3", Looker: looker, Health: calls, History: log, Identify: func(*http.Request) (access.Caller, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.who, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", http.NewCrossOriginProtection().Handler(pages)))
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		pages.Close()
		looker.Close()
		server.Close()
		_ = log.Close()
	})
	s.url = server.URL + "/locks/"
	return s
}

// slow is a store whose list of all takes a time.
type slow struct {
	*memlock.Store
	takes *atomic.Int64
}

func (s slow) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	if f.Resource == "" {
		time.Sleep(time.Duration(s.takes.Load()))
	}
	return s.Store.List(ctx, f)
}

// hold adds a hold.
func (s *scene) hold(resource, owner string, ttl time.Duration) driver.AcquireRequest {
	id := driver.NewHoldID()
	q := driver.AcquireRequest{Resource: resource, LockID: id.String(), HoldID: id, TTL: ttl, Details: driver.Details{Owner: owner, Host: "web1"}}
	if _, err := s.store.Acquire(context.Background(), q); err != nil {
		s.t.Fatal(err)
	}
	return q
}

// wait adds a waiter. It is not fair, so its place lasts a minute.
func (s *scene) wait(resource, owner string) {
	id := driver.NewHoldID()
	_, err := s.store.Acquire(context.Background(), driver.AcquireRequest{
		Resource: resource, LockID: id.String(), HoldID: id, TTL: time.Minute, Details: driver.Details{Owner: owner, Host: "web1"},
		Place: driver.NewPlaceID(),
	})
	if !errors.Is(err, driver.ErrHeld) {
		s.t.Fatal(err)
	}
}

func (s *scene) release(q driver.AcquireRequest) {
	if _, err := s.store.Release(context.Background(), []driver.ReleaseRequest{{
		HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID},
	}}); err != nil {
		s.t.Fatal(err)
	}
}

// holders returns the owners of those who hold a resource.
func (s *scene) holders(resource string) (owners []string) {
	for h, err := range s.store.List(context.Background(), driver.Filter{Resource: resource}) {
		if err != nil {
			s.t.Fatal(err)
		}
		owners = append(owners, h.Owner)
	}
	return owners
}
