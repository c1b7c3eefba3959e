package server_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
)

// fuzzed returns a server that is asked without a network.
func fuzzed(f *testing.F) *server.Server {
	store := memlock.New(nil)
	s, err := server.New(store, &server.Options{Identify: operator, MaxWait: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close(); _ = store.Close() })
	if err := s.WaitReady(f.Context()); err != nil {
		f.Fatal(err)
	}
	return s
}

// Whatever is asked for, the answer is one that openapi.yaml describes.
func FuzzQuery(f *testing.F) {
	s := fuzzed(f)
	for _, query := range []string{"", "resource=r", "resource=r&limit=3", "lockId=%00", "ttlBelowMs=-1", "expired=true&a;b", "createdAfter=2026-01-02T03:04:05Z"} {
		f.Add(query, false)
		f.Add(query, true)
	}
	f.Fuzz(func(t *testing.T, query string, stream bool) {
		for _, path := range []string{wire.HoldsPath, wire.WaitersPath} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.URL = &url.URL{Path: path, RawQuery: query}
			if stream {
				r.Header.Set("Accept", wire.NDJSON)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			heldAgainstDocument(t, r.Method, path, nil, answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()})
		}
	})
}

func FuzzBody(f *testing.F) {
	s := fuzzed(f)
	paths := []string{wire.AcquirePath, wire.RenewPath, wire.ReleasePath, wire.ForceReleasePath, wire.SweepPath}
	for _, body := range []string{
		`{"resource":"r","waitMs":1,"fair":true}`, `{"holds":[{"resource":"r","holdId":"0123456789abcdef01234567","ttlMs":-1}]}`,
		`{"holds":[{"resource":"r","placeId":"0123456789abcdef01234567"}]}`, `{"resource":"r","holdId":"0123456789abcdef01234567","token":1,"reason":"x"}`, `{"idleMs":1000,"most":1}`, `{}`, `{"idleMs":null}`,
	} {
		for i := range paths {
			f.Add(i, body, "5000")
		}
	}
	f.Fuzz(func(t *testing.T, i int, body, budget string) {
		path := paths[uint(i)%uint(len(paths))]
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set(wire.TimeoutHeader, budget)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		heldAgainstDocument(t, r.Method, path, []byte(body), answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()})
	})
}
