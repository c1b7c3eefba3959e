package main

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// counted counts the calls of a store.
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

// Watch is that of the store, which must be able to.
func (c *counted) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	c.watches.Add(1)
	return c.Store.(driver.Watcher).Watch(ctx, resource)
}

func (c *counted) all() int64 {
	return c.acquires.Load() + c.releases.Load() + c.renewals.Load() + c.watches.Load()
}
