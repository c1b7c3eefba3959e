package httpfence_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
)

// A service that is overtaken and just returns has not succeeded. If it has begun to
// answer, its answer stays.
func TestOvertakenWithoutAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		status int
		reason string
	}{
		"none":          {func(http.ResponseWriter) {}, http.StatusPreconditionFailed, "stale"},
		"a status":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, http.StatusAccepted, ""},
		"a body":        {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "done") }, http.StatusOK, ""},
		"a copy":        {func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("done")) }, http.StatusOK, ""},
		"an empty copy": {func(w http.ResponseWriter) { _, _ = io.Copy(w, io.MultiReader()) }, http.StatusPreconditionFailed, "stale"},
		"a flush":       {func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, http.StatusOK, ""},
		"controlled":    {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := handler(t, func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPut {
						<-r.Context().Done()
						c.answer(w)
					}
				}, httpfence.Options{})
				first := make(chan answer, 1)
				go func() { first <- ask(h, "PUT", "/", "5") }()
				synctest.Wait()
				has(t, ask(h, "POST", "/", "6"), http.StatusOK, "")
				a := <-first
				has(t, a, c.status, c.reason)
				if c.reason != "" && !strings.Contains(a.text, "may have been done or not") {
					t.Errorf("the answer says %s", a.text)
				}
			})
		})
	}
}

// A request whose context has ended before, as by a time-out, is overtaken like any
// other.
func TestOvertakenAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn, read := make(chan struct{}), make(chan error, 1)
		h := handler(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				<-goOn
				_, err := r.Body.Read(make([]byte, 1))
				read <- err
			}
		}, httpfence.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPut, "/", strings.NewReader("body"))
		r.Header.Set(httpfence.Header, "5")
		w, over := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(over)
			h.ServeHTTP(w, r)
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		go ask(h, "POST", "/", "6")
		synctest.Wait()
		close(goOn)
		if err := <-read; !errors.Is(err, holdfast.ErrStale) {
			t.Errorf("the service can still read: %v", err)
		}
		if <-over; w.Code != http.StatusPreconditionFailed {
			t.Errorf("status %d", w.Code)
		}
	})
}

// The service gets all features of net/http's ResponseWriter.
func TestResponseWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	server := serve(t, handler(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/file":
			if _, ok := w.(io.ReaderFrom); !ok {
				t.Error("no io.ReaderFrom")
			}
			http.ServeFile(w, r, file)
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			http.Error(w, "no", http.StatusTeapot)
		default:
			conn, buffer, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = buffer.WriteString("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = buffer.Flush()
		}
	}, httpfence.Options{}))
	for path, want := range map[string]struct{ status, size int }{
		"/file": {http.StatusOK, 1 << 20}, "/hints": {http.StatusTeapot, 3}, "/hijack": {http.StatusAccepted, 0},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(httpfence.Header, "5")
		resp, err := server.Client().Do(r)
		if a := read(t, resp, err); a.status != want.status || len(a.text) != want.size {
			t.Errorf("%s: status %d, %d bytes", path, a.status, len(a.text))
		}
	}
	// A ResponseWriter that can be neither flushed nor hijacked.
	h := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil {
			t.Error("it was hijacked")
		}
		if err := http.NewResponseController(w).Flush(); err == nil {
			t.Error("it was flushed")
		}
	}, httpfence.Options{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set(httpfence.Header, "5")
	h.ServeHTTP(struct{ http.ResponseWriter }{httptest.NewRecorder()}, r)
}
