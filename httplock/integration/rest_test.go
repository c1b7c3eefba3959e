package httplock_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// rest is a time without disturbances, for steps of the conformance suite that it cannot
// repeat.
type rest struct{ times atomic.Int32 }

func (r *rest) resting() bool { return r.times.Load() > 0 }

// begin begins a rest, which lasts until the returned function is called.
func (r *rest) begin() (end func()) {
	r.times.Add(1)
	return func() { r.times.Add(-1) }
}

// repeating makes the opened stores repeat requests as a Client does.
func (r *rest) repeating(open func(t *testing.T) driver.Store) func(t *testing.T) driver.Store {
	return func(t *testing.T) driver.Store {
		t.Helper()
		return drivertest.NewRepeater(&spared{open(t), r})
	}
}

// spared is a store that is not disturbed during steps that are not repeated.
type spared struct {
	driver.Store
	rest *rest
}

// Init implements driver.Initializer.
func (s *spared) Init(ctx context.Context) error {
	defer s.rest.begin()()
	return s.Store.(driver.Initializer).Init(ctx)
}

// Watch implements driver.Watcher. A cut stream gives a signal, which tests that expect
// no signal could not distinguish. So nothing is disturbed while somebody watches.
func (s *spared) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	context.AfterFunc(ctx, s.rest.begin())
	return s.Store.(driver.Watcher).Watch(ctx, resource)
}

// Waiters implements driver.Queue.
func (s *spared) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return driver.Waiters(ctx, s.Store, f)
}

// Renew implements driver.Store. A request without a hold ID must not be sent twice.
func (s *spared) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	for _, q := range qs {
		if q.HoldID.IsZero() {
			defer s.rest.begin()()
			break
		}
	}
	return s.Store.Renew(ctx, qs)
}

// Release implements driver.Store, see Renew.
func (s *spared) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	for _, q := range qs {
		if q.HoldID.IsZero() {
			defer s.rest.begin()()
			break
		}
	}
	return s.Store.Release(ctx, qs)
}
