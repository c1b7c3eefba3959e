package proxy

import (
	"context"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// Disturbed opens harnesses of a store for drivertest.Run, each behind a network of its own
// that cuts connections at percent of the requests and replies. open must connect the store
// through the network, but not the functions of the harness. A call without an answer is
// repeated. The harness's Break refuses connections.
func Disturbed(percent int, open func(t *testing.T, n *Network) *drivertest.Harness) func(t *testing.T) *drivertest.Harness {
	return func(t *testing.T) *drivertest.Harness {
		n := New(t)
		h := *open(t, n)
		n.Set(Rarely(percent))
		disturbed := func(s driver.Store) driver.Store {
			return drivertest.NewRepeater(&spared{Store: s, n: n})
		}
		h.Store = disturbed(h.Store)
		if reopen := h.Reopen; reopen != nil {
			h.Reopen = func(t *testing.T) driver.Store { return disturbed(reopen(t)) }
		}
		h.Repeats = true
		h.Break = func(*testing.T) func() {
			n.Refuse()
			return n.Accept
		}
		return &h
	}
}

// spared is a store that is not disturbed during calls that must not be repeated.
type spared struct {
	driver.Store
	n *Network
}

// Init implements driver.Initializer. Like the Client it tries again: on a busy machine,
// reconnecting after a cut may take a driver longer than its time-out.
func (s *spared) Init(ctx context.Context) (err error) {
	defer s.n.Spare()()
	i, ok := s.Store.(driver.Initializer)
	if !ok {
		return nil
	}
	for range 3 {
		if err = i.Init(ctx); err == nil {
			break
		}
	}
	return err
}

// Watch implements driver.Watcher. It suspends the fault until ctx ends: after a cut, a stream
// gives a signal when it is connected again, which tests that expect no signal could not tell
// from a wake-up.
func (s *spared) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	w, ok := s.Store.(driver.Watcher)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	context.AfterFunc(ctx, s.n.Spare())
	return w.Watch(ctx, resource)
}

// Waiters implements driver.Queue.
func (s *spared) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return driver.Waiters(ctx, s.Store, f)
}

// Renew implements driver.Store. A request without a hold ID must not be sent twice.
func (s *spared) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	for _, q := range qs {
		if q.HoldID.IsZero() {
			defer s.n.Spare()()
			break
		}
	}
	return s.Store.Renew(ctx, qs)
}

// Release implements driver.Store, see Renew.
func (s *spared) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	for _, q := range qs {
		if q.HoldID.IsZero() {
			defer s.n.Spare()()
			break
		}
	}
	return s.Store.Release(ctx, qs)
}
