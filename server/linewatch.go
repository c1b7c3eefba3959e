package server

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// watchTimeout is how long a store may take to subscribe.
const watchTimeout = 2 * time.Second

var errNotWatching = errors.New("no subscription within 2 s")

// subscribe calls the store's Watch, whose subscription lasts until stop is called. A timer
// bounds the call, even if the store ignores its ctx: while one hangs, no other is made.
func (s *Server) subscribe(ctx context.Context, resource string) (signals <-chan struct{}, stop context.CancelFunc, err error) {
	store, ok := s.store.(driver.Watcher)
	switch {
	case !ok || !s.store.Traits().Notifies:
		return nil, nil, driver.ErrUnsupported
	case s.hungWatches.Load() > 0:
		return nil, nil, errNotWatching
	}
	ctx, stop = context.WithCancel(ctx)
	answered, began := make(chan struct{}), time.Now()
	var answer <-chan struct{}
	var failed error
	go func() {
		defer close(answered)
		answer, failed = store.Watch(ctx, resource)
	}()
	timer := time.NewTimer(watchTimeout)
	defer timer.Stop()
	select {
	case <-answered:
		signals, err = answer, failed
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errNotWatching
		s.hungWatches.Add(1)
		go func() {
			<-answered
			s.hungWatches.Add(-1)
		}()
	}
	s.opts.Observer.storeCall(ctx, "watch", began, err)
	if err != nil {
		stop()
		return nil, nil, err
	}
	return signals, stop, nil
}

// watchOnce begins to watch the store for the line, unless that is done. lines.mu is held.
func (ls *lines) watchOnce(l *line) {
	if l.unwatch != nil || ls.s.life.Err() != nil || !ls.s.store.Traits().Notifies {
		return
	}
	ctx, cancel := context.WithCancel(ls.s.life)
	l.unwatch, l.watching = cancel, true
	ls.s.work.Go(func() { ls.begin(ctx, l) })
}

// begin subscribes for the line. Once that is effective, the head asks again: a release
// before that gave no signal. From then on the head receives the signals, so that a line
// needs no goroutine of its own.
func (ls *lines) begin(ctx context.Context, l *line) {
	pauses := backoff.New(watchFirst, watchLimit)
	for {
		signals, _, err := ls.s.subscribe(ctx, l.resource) // until ctx ends
		if ctx.Err() != nil {
			return
		}
		ls.watches(l, signals)
		if err == nil || errors.Is(err, driver.ErrUnsupported) {
			return
		}
		if !sleep(ctx, pauses.Next()) {
			return
		}
	}
}

// watches notes where signals arrive from now on, or nil if nowhere: the head then polls.
func (ls *lines) watches(l *line, signals <-chan struct{}) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.signals, l.watching = signals, false
	if l.head != nil {
		invite(l.head.turn)
	}
}

// signalled invites the head if the signal is worth it. It need not be the head that has
// received it.
func (ls *lines) signalled(l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w := l.head; w != nil && w.pacer.signalled() {
		invite(w.turn)
	}
}

// close stops the timers. Watches end with the life of the server: none begins after it.
func (ls *lines) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.lines {
		for _, w := range l.waiters {
			if w.away != nil {
				w.away.Stop()
			}
		}
	}
}
