package waitline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// WatchTimeout is how long a store may take to subscribe.
const WatchTimeout = 2 * time.Second

var errNotWatching = fmt.Errorf("no subscription within %v", WatchTimeout)

// subscription is the subscription of a line. When it has begun, the head asks again, because
// an earlier release gave no signal. From then on the head receives the signals, so a line
// needs no goroutine of its own.
type subscription struct {
	cancel  context.CancelFunc
	signals <-chan struct{} // nil if there are none, and the head polls
	begins  bool            // the subscription is about to begin
	cut     bool            // the store has closed the channel: poll from now on
}

// Subscribe calls Config.Watch. The subscription ends with ctx or by stop. A timer limits the
// call even if the store ignores its ctx. While a call hangs, no other is made.
func (ls *Lines) Subscribe(ctx context.Context, resource string) (signals <-chan struct{}, stop context.CancelFunc, err error) {
	switch {
	case !ls.notifies():
		return nil, nil, driver.ErrUnsupported
	case ls.hangs() != nil:
		return nil, nil, errNotWatching
	}
	ctx, stop = context.WithCancel(storecall.Uncaused{Context: ctx})
	answered, began := make(chan struct{}), time.Now()
	var answer <-chan struct{}
	var failed error
	if !ls.Scope.Go(func() {
		defer close(answered)
		answer, failed = ls.Watch(ctx, resource)
	}) {
		stop()
		return nil, nil, ErrClosed
	}
	timer := time.NewTimer(WatchTimeout)
	defer timer.Stop()
	select {
	case <-answered:
		if failed != nil {
			stop()
			return nil, nil, failed
		}
		return answer, stop, nil
	case <-timer.C:
		err = errNotWatching
	case <-ctx.Done():
		err = ctx.Err()
	}
	stop()
	go ls.awaitWatch(answered, began)
	return nil, nil, err
}

// awaitWatch waits for the return of an abandoned call of Watch, and notes whether it hangs.
func (ls *Lines) awaitWatch(answered <-chan struct{}, began time.Time) {
	if left := WatchTimeout - time.Since(began); left > 0 {
		select {
		case <-answered:
			return
		case <-time.After(left):
		}
	}
	ls.mu.Lock()
	if ls.hung++; ls.hung == 1 {
		ls.returned = make(chan struct{})
	}
	ls.mu.Unlock()
	<-answered
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.hung--; ls.hung == 0 {
		close(ls.returned)
		ls.returned = nil
	}
}

// notifies reports whether the store sends signals.
func (ls *Lines) notifies() bool { return ls.Watch != nil && ls.Traits().Notifies }

// hangs returns a channel that is closed when no call of Watch hangs any more, or nil if none
// does.
func (ls *Lines) hangs() <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.returned
}

// watch starts the subscription of the line if there is none. ls.mu is held.
func (ls *Lines) watch(l *line) {
	if l.sub != nil || ls.life.Err() != nil || !ls.notifies() {
		return
	}
	ctx, cancel := context.WithCancel(ls.life)
	sub, resource := &subscription{cancel: cancel, begins: true}, l.resource // the line may be reused for another resource
	if !ls.Scope.Go(func() { ls.begin(ctx, resource, l, sub) }) {
		cancel()
		return
	}
	l.sub = sub
}

// begin subscribes for the line, and repeats that if it fails.
func (ls *Lines) begin(ctx context.Context, resource string, l *line, sub *subscription) {
	pauses := backoff.New(watchFirst, watchLimit)
	for ctx.Err() == nil {
		if returned := ls.hangs(); returned != nil {
			ls.watching(l, sub, nil)
			select {
			case <-returned:
				continue
			case <-ctx.Done():
				return
			}
		}
		began := time.Now()
		signals, _, err := ls.Subscribe(ctx, resource) // the subscription ends with ctx
		if ctx.Err() != nil {
			return
		}
		if ls.Watched != nil {
			ls.Watched(resource, began, err)
		}
		ls.watching(l, sub, signals)
		if err == nil || errors.Is(err, driver.ErrUnsupported) || backoff.Wait(ctx, pauses.Next()) != nil {
			return
		}
	}
}

// watching notes the channel of the signals, or nil if there are none.
func (ls *Lines) watching(l *line, sub *subscription, signals <-chan struct{}) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	sub.signals, sub.begins = signals, false
	if l.sub == sub && l.head != nil {
		l.head.invite()
	}
}

// signalled invites the head if the signal is worth it. The head need not be the waiter that
// received the signal. A closed channel means: poll from now on. The next head may subscribe
// again.
func (ls *Lines) signalled(l *line, sub *subscription, open bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.sub != sub {
		return
	}
	if !open {
		sub.signals, sub.cut = nil, true
	}
	if l.head != nil && (!open || l.head.paces().signalled()) {
		l.head.invite()
	}
}
