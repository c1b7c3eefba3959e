package httplock_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// caller is the store of a caller whose name the server puts before each owner, and to
// whom it binds places in queues: it turns both back into what its user gave.
type caller struct {
	driver.Store
	name string
	ids  *sync.Map // of all handles: the place that a user gave, by that in the store
}

// calling makes callers of the stores that open makes.
func calling(name string, open func(t *testing.T) driver.Store) func(t *testing.T) driver.Store {
	ids := new(sync.Map)
	return func(t *testing.T) driver.Store {
		t.Helper()
		return &caller{open(t), name, ids}
	}
}

// sends notes a place that the server is sent. It hashes that with the caller's name, and
// replaces the second half by a hash of the first.
func (c *caller) sends(id driver.PlaceID) {
	sum := sha256.Sum256([]byte(c.name + ":" + id.String()))
	const half = len(id) / 2
	second := sha256.Sum256([]byte("place of " + c.name + ":" + hex.EncodeToString(sum[:half])))
	c.ids.Store(driver.PlaceID(append(sum[:half:half], second[:half]...)), id)
}

// place returns the place that the user gave, if it is one.
func (c *caller) place(id driver.PlaceID) driver.PlaceID {
	if given, ok := c.ids.Load(id); ok {
		return given.(driver.PlaceID)
	}
	return id
}

// given returns the owner that the user gave, if the server calls him so.
func (c *caller) given(owner string) string {
	return strings.TrimPrefix(strings.TrimPrefix(owner, c.name), "/")
}

func (c *caller) hold(h driver.Status) driver.Status {
	h.Owner = c.given(h.Owner)
	if h.Waits != nil {
		waits := *h.Waits
		waits.Place = c.place(waits.Place)
		h.Waits = &waits
	}
	return h
}

func (c *caller) waiter(p driver.Place) driver.Place {
	p.Owner, p.ID = c.given(p.Owner), c.place(p.ID)
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
	c.sends(q.Place)
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

// Renew implements driver.Store.
func (c *caller) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	for _, q := range qs {
		if q.Waits != nil {
			c.sends(q.Waits.Place)
		}
	}
	return c.Store.Renew(ctx, qs)
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
