package httplock_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// caller is the store of a caller whose name the server puts before each owner. It
// restores the owner that its user gave.
type caller struct {
	driver.Store
	name string
}

// calling makes callers of the stores that open opens.
func calling(name string, open func(t *testing.T) driver.Store) func(t *testing.T) driver.Store {
	return func(t *testing.T) driver.Store {
		t.Helper()
		return &caller{open(t), name}
	}
}

// given returns the owner that the user gave, from the server's form.
func (c *caller) given(owner string) string {
	return strings.TrimPrefix(strings.TrimPrefix(owner, c.name), "/")
}

func (c *caller) hold(h driver.Status) driver.Status {
	h.Owner = c.given(h.Owner)
	return h
}

func (c *caller) waiter(p driver.Place) driver.Place {
	p.Owner = c.given(p.Owner)
	return p
}

func (c *caller) filter(f driver.Filter) driver.Filter {
	if f.Owner != "" {
		f.Owner = c.name + "/" + f.Owner
	}
	return f
}

// Acquire implements driver.Store.
func (c *caller) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := c.Store.Acquire(ctx, q)
	if held := (*driver.HeldError)(nil); errors.As(err, &held) {
		changed := *held
		changed.Holders, changed.Ahead = slices.Clone(held.Holders), slices.Clone(held.Ahead)
		for i, h := range held.Holders {
			changed.Holders[i] = c.hold(h)
		}
		for i, p := range held.Ahead {
			changed.Ahead[i] = c.waiter(p)
		}
		return g, &changed
	}
	return g, err
}

// List implements driver.Store.
func (c *caller) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		for h, err := range c.Store.List(ctx, c.filter(f)) {
			if !yield(c.hold(h), err) {
				return
			}
		}
	}
}

// Waiters implements driver.Queue.
func (c *caller) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return func(yield func(driver.Place, error) bool) {
		for p, err := range driver.Waiters(ctx, c.Store, c.filter(f)) {
			if !yield(c.waiter(p), err) {
				return
			}
		}
	}
}

// Watch implements driver.Watcher.
func (c *caller) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	return c.Store.(driver.Watcher).Watch(ctx, resource)
}

// Init implements driver.Initializer.
func (c *caller) Init(ctx context.Context) error { return c.Store.(driver.Initializer).Init(ctx) }
