package httpfence_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// trusting accepts every token.
func trusting(*http.Request, httpfence.Token) error { return nil }

// place is a Resource: all requests are for the same one.
func place(*http.Request) string { return "the place" }

// handler returns a Handler in front of next. It sets missing options.
func handler(t testing.TB, next http.HandlerFunc, opts httpfence.Options) *httpfence.Handler {
	t.Helper()
	if opts.Resource == nil {
		opts.Resource = place
	}
	if opts.Newest == nil {
		opts.Newest = new(httpfence.Memory)
	}
	if opts.Trust == nil {
		opts.Trust = trusting
	}
	h, err := httpfence.New(next, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// answer has the parts of a response that tests check.
type answer struct {
	status int
	header http.Header
	text   string
}

// ask sends a request with these headers directly to h.
func ask(h http.Handler, method, path string, headers ...string) answer {
	r := httptest.NewRequestWithContext(context.Background(), method, path, nil)
	for _, header := range headers {
		r.Header.Add(httpfence.Header, header)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// read reads and closes the response of a server.
func read(t testing.TB, resp *http.Response, err error) answer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// has checks that the answer has this status and reason.
func has(t testing.TB, a answer, status int, reason string) {
	t.Helper()
	if got := a.header.Get(httpfence.RefusedHeader); a.status != status || got != reason {
		t.Errorf("status %d, reason %q, body %q; want status %d, reason %q", a.status, got, a.text, status, reason)
	}
}

func newClient(t testing.TB) *holdfast.Client {
	t.Helper()
	client := holdfast.New(memlock.New(nil), nil)
	t.Cleanup(func() { client.Close() })
	return client
}

func lock(t testing.TB, client *holdfast.Client, resource string) *holdfast.Hold {
	t.Helper()
	hold, err := client.Lock(context.WithoutCancel(t.Context()), resource, nil)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// account is a service with a number, which it may change slowly.
type account struct {
	mu    sync.Mutex
	value int64
}

func (a *account) get() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value
}

func (a *account) set(value int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.value = value
}
