package serve

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// storeID is the ID of the store, once it is known: what the front refuses has it too, or
// callers would not believe that a server of the store has written it.
type storeID struct{ id atomic.Pointer[string] }

func (s *storeID) get() string {
	if id := s.id.Load(); id != nil {
		return *id
	}
	return ""
}

// learn asks the server, which says it with each answer.
func (s *storeID) learn(ctx context.Context, server http.Handler) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return err
	}
	answer := headers{}
	server.ServeHTTP(answer, r)
	id := http.Header(answer).Get(wire.StoreHeader)
	s.id.Store(&id)
	return nil
}

// headers is an answer of which nothing else is of interest.
type headers http.Header

// Header implements http.ResponseWriter.
func (h headers) Header() http.Header { return http.Header(h) }

// Write implements http.ResponseWriter.
func (headers) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (headers) WriteHeader(int) {}
