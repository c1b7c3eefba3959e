package main

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// counted is a store that counts its calls.
type counted struct {
	driver.Store
	acquires, releases, renewals, watches atomic.Int64
}

func (c *counted) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	c.acquires.Add(1)
	return c.Store.Acquire(ctx, q)
}

func (c *counted) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	c.releases.Add(1)
	return c.Store.Release(ctx, qs)
}

func (c *counted) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	c.renewals.Add(1)
	return c.Store.Renew(ctx, qs)
}

// Watch implements driver.Watcher.
func (c *counted) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	w, ok := c.Store.(driver.Watcher)
	if !ok {
		return nil, driver.ErrUnsupported
	}
	c.watches.Add(1)
	return w.Watch(ctx, resource)
}

func (c *counted) all() int64 {
	return c.acquires.Load() + c.releases.Load() + c.renewals.Load() + c.watches.Load()
}
