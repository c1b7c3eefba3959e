// Package wake passes a store's signals on to the watchers: the part of a driver.Watcher that
// all stores share. The store provides the signals.
package wake

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// A Hub has subscriptions by resource. The zero value is ready for use. All methods may be
// called concurrently.
type Hub struct {
	mu     sync.Mutex
	subs   map[string]map[chan struct{}]struct{}
	closed bool
}

// Subscribe returns a channel that gets a value for each Signal of the resource from now on,
// until ctx ends. Signals coalesce while the last one was not received. Close closes the
// channel; a closed Hub returns a closed channel.
func (h *Hub) Subscribe(ctx context.Context, resource string) <-chan struct{} {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(ch)
		return ch
	}
	if h.subs == nil {
		h.subs = make(map[string]map[chan struct{}]struct{})
	}
	if h.subs[resource] == nil {
		h.subs[resource] = make(map[chan struct{}]struct{})
	}
	h.subs[resource][ch] = struct{}{}
	context.AfterFunc(ctx, func() { h.remove(resource, ch) })
	return ch
}

func (h *Hub) remove(resource string, ch chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs[resource], ch)
	if len(h.subs[resource]) == 0 {
		delete(h.subs, resource)
	}
}

// Signal wakes the subscribers of the resource.
func (h *Hub) Signal(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.subs[resource] {
		signal(ch)
	}
}

// SignalAll wakes all subscribers, as after a gap in the store's stream.
func (h *Hub) SignalAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, subs := range h.subs {
		for ch := range subs {
			signal(ch)
		}
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // the last signal was not received yet
	}
}

// Resources returns the resources with subscribers, in any order.
func (h *Hub) Resources() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.AppendSeq(make([]string, 0, len(h.subs)), maps.Keys(h.subs))
}

// Close closes all channels: no more signals come.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, subs := range h.subs {
		for ch := range subs {
			close(ch)
		}
	}
	h.subs = nil
}
