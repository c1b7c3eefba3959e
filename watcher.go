package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// watcher is the subscription of one head of a line. Without a signal, the head
// polls.
type watcher struct {
	c        *Client
	resource string
	signal   <-chan struct{}
	cancel   context.CancelFunc
	off      bool // the store cannot watch, or its stream has ended
	pauses   backoff
	retryAt  time.Duration // after a subscription that failed
}

// start subscribes unless that is done or futile. It reports whether a
// subscription has just become effective, so that the asker must ask again.
func (w *watcher) start(ctx context.Context) bool {
	if w.signal != nil || w.off || w.c.clock() < w.retryAt {
		return false
	}
	store, ok := w.c.store.(driver.Watcher)
	if !ok {
		w.off = true
		return false
	}
	ctx, cancel := w.c.untilClose(ctx)
	// The ctx is that of the subscription, which lasts. A store that does not
	// answer must not hold up the asker for as long.
	limit := time.AfterFunc(subscribeTimeout, cancel)
	signal, err := store.Watch(ctx, w.resource)
	w.cancel = cancel
	if !limit.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		w.stop()
		w.off = errors.Is(err, driver.ErrUnsupported)
		if !w.off {
			if w.pauses.next == 0 {
				w.pauses = backoff{watchFirst, watchLimit}
			}
			w.retryAt = w.c.clock() + w.pauses.pause()
			w.c.warns("holdfast: cannot watch, polling for now", "resource", w.resource, "error", err)
		}
		return false
	}
	w.signal = signal
	return true
}

// ended notes that the store closed the channel: poll from now on.
func (w *watcher) ended() {
	w.stop()
	w.off = true
}

// stop unsubscribes.
func (w *watcher) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.signal, w.cancel = nil, nil
}
