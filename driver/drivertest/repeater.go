package drivertest

import (
	"context"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// WithFaults opens the same stores behind a FaultStore with RandomFaults and a Repeater. A
// store that keeps the contract behaves in the same way there, because every request may be
// repeated.
func WithFaults(open func(t *testing.T) *Harness) func(t *testing.T) *Harness {
	return func(t *testing.T) *Harness {
		h := *open(t)
		seed := uint64(0)
		disturbed := func(s driver.Store) driver.Store {
			seed++
			return NewRepeater(NewFaultStore(s, RandomFaults(seed, 30)))
		}
		h.Store = disturbed(h.Store)
		if reopen := h.Reopen; reopen != nil {
			h.Reopen = func(t *testing.T) driver.Store { return disturbed(reopen(t)) }
		}
		h.Repeats = true
		return &h
	}
}

// Repeater is a store in front of another store that repeats, with the same hold IDs,
// requests without a definite answer, as the Client does. It stops when ctx ends, and at once
// after a named error of package driver or for a request that must be sent only once.
//
// A repeated release does not find the hold that its first attempt has released, and a
// repeated sweep does not count what the first one removed.
type Repeater struct{ driver.Store }

var (
	_ driver.Watcher     = (*Repeater)(nil)
	_ driver.Initializer = (*Repeater)(nil)
)

// NewRepeater returns a Repeater for the store.
func NewRepeater(store driver.Store) *Repeater { return &Repeater{store} }

// definite reports whether a repeat would be useless.
func definite(err error) bool { return err == nil || driver.Definite(err) }

// repeat calls until the answer is definite.
func repeat[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if definite(err) || ctx.Err() != nil {
			return v, err
		}
	}
}

// Acquire implements driver.Store.
func (r *Repeater) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	return repeat(ctx, func() (driver.Grant, error) { return r.Store.Acquire(ctx, q) })
}

// Renew implements driver.Store.
func (r *Repeater) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	return repeatBatch(ctx, Renew, qs, r.Store.Renew,
		func(q driver.RenewRequest) driver.HoldRef { return q.HoldRef },
		func(res driver.RenewResult) error { return res.Err })
}

// Release implements driver.Store.
func (r *Repeater) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return repeatBatch(ctx, Release, qs, r.Store.Release,
		func(q driver.ReleaseRequest) driver.HoldRef { return q.HoldRef },
		func(res driver.ReleaseResult) error { return res.Err })
}

// repeatBatch repeats the requests of a batch without a definite outcome.
func repeatBatch[Q, R any](ctx context.Context, op Op, qs []Q, send func(context.Context, []Q) ([]R, error),
	ref func(Q) driver.HoldRef, outcome func(R) error,
) ([]R, error) {
	results := make([]R, len(qs))
	open := make([]int, len(qs)) // indexes of requests without an outcome
	for i := range open {
		open[i] = i
	}
	for {
		batch := make([]Q, len(open))
		call := Call{Op: op}
		for i, at := range open {
			batch[i] = qs[at]
			call.Refs = append(call.Refs, ref(qs[at]))
		}
		got, err := send(ctx, batch)
		if err != nil && (ctx.Err() != nil || definite(err) || call.sentOnce()) {
			return nil, err
		}
		var left []int
		for i, at := range open {
			switch {
			case err != nil || i >= len(got):
				left = append(left, at)
			case definite(outcome(got[i])) || call.sentOnce() || ctx.Err() != nil:
				results[at] = got[i]
			default:
				left = append(left, at)
			}
		}
		if open = left; len(open) == 0 {
			return results, nil
		}
	}
}

// List implements driver.Store. After an error it yields from the beginning again.
func (r *Repeater) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return relisted(ctx, f, r.Store.List)
}

// Waiters implements driver.Queue. It is like List.
func (r *Repeater) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return relisted(ctx, f, func(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
		return driver.Waiters(ctx, r.Store, f)
	})
}

func relisted[T any](ctx context.Context, f driver.Filter, list func(context.Context, driver.Filter) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for failed := true; failed; {
			failed = false
			for s, err := range list(ctx, f) {
				if failed = err != nil && !definite(err) && ctx.Err() == nil; failed {
					break
				}
				if !yield(s, err) || err != nil {
					return
				}
			}
		}
	}
}

// Sweep implements driver.Store.
func (r *Repeater) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	return repeat(ctx, func() (driver.SweepResult, error) { return r.Store.Sweep(ctx, q) })
}

// Watch implements driver.Watcher.
func (r *Repeater) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	w, ok := r.Store.(driver.Watcher)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	return repeat(ctx, func() (<-chan struct{}, error) { return w.Watch(ctx, resource) })
}

// Init implements driver.Initializer.
func (r *Repeater) Init(ctx context.Context) error {
	if i, ok := r.Store.(driver.Initializer); ok {
		return i.Init(ctx)
	}
	return nil
}
