package server

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/health"
)

// Observer is told what the server does, for metrics. Any of its functions may be nil. They
// are called by many goroutines at once, which wait for them. They are never told a hold ID, a
// lock ID or a resource.
type Observer struct {
	// Request: a request was answered. The kind is empty for a success.
	Request func(route string, status int, kind wire.Kind, took time.Duration)
	// Wait: an acquire begins to stand in a line (+1), or ends that (-1).
	Wait func(change int)
	// Stream: a list or a watch begins (+1) or ends (-1).
	Stream func(kind Stream, change int)
	// StoreCall: a call of the store has returned. Op is acquire, renew, release, list,
	// waiters, sweep, watch or init. ctx is that of the request, or of the server.
	StoreCall func(ctx context.Context, op string, took time.Duration, err error)
}

// Stream is a kind of answer that goes on.
type Stream string

// The streams. Lists in plain JSON count, too.
const (
	ListStream  Stream = "list"
	WatchStream Stream = "watch"
)

func (o *Observer) request(route string, status int, kind wire.Kind, took time.Duration) {
	if o.Request != nil {
		o.Request(route, status, kind, took)
	}
}

func (o *Observer) wait(change int) {
	if o.Wait != nil {
		o.Wait(change)
	}
}

func (o *Observer) stream(kind Stream, change int) {
	if o.Stream != nil {
		o.Stream(kind, change)
	}
}

// storeCall tells what came of a call of the store.
func (s *Server) storeCall(ctx context.Context, op string, began time.Time, err error) {
	s.called(ctx, op, time.Since(began), err)
}

func (s *Server) called(ctx context.Context, op string, took time.Duration, err error) {
	s.opts.Health.StoreCall(ctx, op, took, err)
	s.observe(ctx, op, took, err)
}

// observe is called for calls whose failure says little of the others: clean-ups repeat them.
func (s *Server) observe(ctx context.Context, op string, took time.Duration, err error) {
	if tell := s.opts.Observer.StoreCall; tell != nil {
		tell(ctx, op, took, err)
	}
	if why, ok := health.Telling(ctx, took, err); ok && why != health.None {
		s.identity.suspect(true)
	}
}
