package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
)

// wire is a connection that records deadlines, with a body that stops after its first
// part until a deadline is set.
type wire struct {
	*httptest.ResponseRecorder
	first *strings.Reader
	past  chan struct{} // closed when reads fail

	mu    sync.Mutex
	began time.Time
	set   []string
}

func newWire(first string) *wire {
	return &wire{httptest.NewRecorder(), strings.NewReader(first), make(chan struct{}), sync.Mutex{}, time.Now(), nil}
}

func (w *wire) note(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = append(w.set, fmt.Sprintf("%s after %v", what, time.Since(w.began)))
	if what == "read" && len(w.set) == 1 {
		close(w.past)
	}
	return nil
}

func (w *wire) SetReadDeadline(time.Time) error  { return w.note("read") }
func (w *wire) SetWriteDeadline(time.Time) error { return w.note("write") }

func (w *wire) Read(p []byte) (int, error) {
	if w.first.Len() > 0 {
		return w.first.Read(p)
	}
	<-w.past
	return 0, context.DeadlineExceeded
}

func (w *wire) Close() error {
	_, _ = io.Copy(io.Discard, w)
	return nil
}

// A deadline costs an HTTP/1 client its connection. It is set only if something waits for
// the body, or does not end.
func TestDeadlines(t *testing.T) {
	ended := func(r *http.Request) { <-r.Context().Done() }
	rest := func(t *testing.T, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); n > 0 || !errors.Is(err, holdfast.ErrStale) {
			t.Errorf("read %d bytes, error %v", n, err)
		}
	}
	for name, test := range map[string]struct {
		body  bool
		serve func(*testing.T, *http.Request)
		want  string
	}{
		"no body":         {false, func(_ *testing.T, r *http.Request) { ended(r) }, ""},
		"nothing read":    {true, func(_ *testing.T, r *http.Request) { ended(r) }, ""},
		"reads afterward": {true, func(t *testing.T, r *http.Request) { ended(r); rest(t, r) }, ""},
		"in a read": {true, func(t *testing.T, r *http.Request) {
			_, _ = io.ReadFull(r.Body, make([]byte, len("first")))
			rest(t, r)
		}, "read after 0s"},
		"in Close":         {true, func(_ *testing.T, r *http.Request) { r.Body.Close() }, "read after 0s"},
		"closes afterward": {true, func(_ *testing.T, r *http.Request) { ended(r); r.Body.Close() }, "read after 0s"},
		"goes on":          {false, func(*testing.T, *http.Request) { time.Sleep(3 * time.Second) }, "write after 2s"},
		"goes on, with a body": {true, func(*testing.T, *http.Request) { time.Sleep(3 * time.Second) },
			"read after 2s, write after 2s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := handler(t, func(_ http.ResponseWriter, r *http.Request) {
					if token, _ := httpfence.TokenOf(r.Context()); token.Value == 5 {
						test.serve(t, r)
					}
				}, httpfence.Options{Patience: 4 * time.Second})
				w := newWire("first")
				var old sync.WaitGroup
				old.Go(func() {
					r := httptest.NewRequestWithContext(t.Context(), "PUT", "/", nil)
					if test.body {
						r.Body = w
					}
					r.Header.Set(httpfence.Header, "5")
					h.ServeHTTP(w, r)
				})
				synctest.Wait()
				has(t, ask(h, "GET", "/", "6"), http.StatusOK, "")
				old.Wait()
				synctest.Wait()
				if got := strings.Join(w.set, ", "); got != test.want {
					t.Errorf("deadlines: %q, want %q", got, test.want)
				}
			})
		})
	}
}
