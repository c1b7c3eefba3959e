// Package queueless has a store for tests that keeps no queue, as those of other lock
// libraries do. A program that imports it can open it by its URL.
package queueless

import (
	"context"
	"net/url"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// URL is that of a new, empty store.
const URL = "queueless://host"

func init() {
	driver.Register("queueless", func(context.Context, *url.URL) (driver.Store, error) { return store{memlock.New(nil)}, nil })
}

type store struct{ driver.Store }

// Traits implements driver.Store.
func (s store) Traits() driver.Traits {
	t := s.Store.Traits()
	t.Queue = false
	return t
}
