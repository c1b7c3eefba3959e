package faults

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// observed is a store that reports its requests to the test.
type observed struct {
	driver.Store
	acquires atomic.Int32
	watched  chan struct{} // receives when a Watch takes effect

	// These run before a request is sent.
	onWatch, onRenew func()
}

func observe(s driver.Store) *observed {
	nothing := func() {}
	return &observed{Store: s, watched: make(chan struct{}, 1), onWatch: nothing, onRenew: nothing}
}

// Acquire implements driver.Store.
func (o *observed) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	o.acquires.Add(1)
	return o.Store.Acquire(ctx, q)
}

// Renew implements driver.Store.
func (o *observed) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	o.onRenew()
	return o.Store.Renew(ctx, qs)
}

// Init implements driver.Initializer.
func (o *observed) Init(ctx context.Context) error { return initialize(ctx, o.Store) }

// Watch implements driver.Watcher.
func (o *observed) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	w, ok := o.Store.(driver.Watcher)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	o.onWatch()
	ch, err := w.Watch(ctx, resource)
	if err == nil {
		select {
		case o.watched <- struct{}{}:
		default: // the previous signal has not been received
		}
	}
	return ch, err
}
