package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// subscription is that of an acquirer at the head of its queue. Without a signal, the
// acquirer polls.
type subscription struct {
	c        *Client
	resource string
	signal   <-chan struct{}
	cancel   context.CancelFunc
	off      bool // the store cannot watch, or its stream has ended
	pauses   backoff.Backoff
	retryAt  time.Duration // after a subscription that failed
}

// start subscribes unless that is done or useless. It reports whether the subscription
// has just become effective, so that the acquirer must try again.
func (w *subscription) start(ctx context.Context) bool {
	if w.signal != nil || w.off || w.c.clock() < w.retryAt || w.c.hungWatches.Load() > 0 {
		return false
	}
	store, ok := w.c.store.(driver.Watcher)
	if !ok {
		w.off = true
		return false
	}
	signal, err := w.subscribe(ctx, store)
	switch {
	case err == nil:
		w.signal = signal
		return true
	case ctx.Err() != nil || w.c.life.Err() != nil: // the wait is over
	case errors.Is(err, driver.ErrUnsupported):
		w.off = true
	default:
		if w.pauses == (backoff.Backoff{}) {
			w.pauses = backoff.New(watchFirst, watchLimit)
		}
		w.retryAt = w.c.clock() + w.pauses.Next()
		w.c.warn("holdfast: cannot watch, polling for now", "resource", w.resource, "error", err)
	}
	w.stop()
	return false
}

// subscribeTimeout is how long a store may take to subscribe.
const subscribeTimeout = 2 * time.Second

var errNotWatching = fmt.Errorf("no subscription within %v", subscribeTimeout)

// subscribe calls the store's Watch. Its ctx is that of the whole subscription, so a
// timer bounds the call, even if the store ignores its ctx. While such a call goes on,
// the Client polls and makes no other.
func (w *subscription) subscribe(ctx context.Context, store driver.Watcher) (<-chan struct{}, error) {
	c, resource := w.c, w.resource // a goroutine with w would move each acquirer's to the heap
	ctx, w.cancel = c.untilClose(ctx)
	var signal <-chan struct{}
	var err error
	answered := make(chan struct{})
	c.work.Go(func() { // the caller is an operation that Close waits for
		defer close(answered)
		signal, err = store.Watch(ctx, resource)
	})
	select {
	case <-answered:
		return signal, err
	case <-time.After(subscribeTimeout):
	case <-ctx.Done():
	}
	w.cancel()
	c.hungWatches.Add(1)
	go func() {
		<-answered
		c.hungWatches.Add(-1)
	}()
	return nil, errNotWatching
}

// ended notes that the store has closed the channel: the acquirer polls from now on.
func (w *subscription) ended() {
	w.stop()
	w.off = true
}

// stop unsubscribes.
func (w *subscription) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.signal, w.cancel = nil, nil
}

// startLossWatch watches for losses of the store's data, if the store can notice them.
// The timer calls it, within a second after a grant, if it finds a hold: a program that
// locks for a moment needs no connection for that. c.mu is held.
func (c *Client) startLossWatch() {
	c.lossWatch = true
	if store, ok := c.store.(driver.LossWatcher); ok {
		c.work.Add(1)
		go c.watchLoss(store)
	}
}

// watchLoss renews all holds at once each time that the store may have lost them, so that
// their holders learn it now and not when the next renewals are due.
func (c *Client) watchLoss(store driver.LossWatcher) {
	defer c.work.Done()
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	signal, err := store.WatchLoss(ctx)
	for open := err == nil; open; {
		c.renewAll()
		select {
		case _, open = <-signal:
		case <-ctx.Done():
			open = false
		}
	}
	if err != nil && !errors.Is(err, driver.ErrUnsupported) {
		c.mu.Lock()
		c.lossWatch = false // the timer tries again
		c.mu.Unlock()
	}
}

// renewAll makes all renewals due. Those under way are repeated when they are answered.
func (c *Client) renewAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.doubtedAt = now
	for _, h := range c.holds {
		if h.keep && !h.inFlight {
			h.renewAt = now
			c.armFor(h, now)
		}
	}
}
