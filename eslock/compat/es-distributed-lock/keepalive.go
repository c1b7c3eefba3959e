package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// keepAlive is a keep-alive that runs until its ctx ends.
type keepAlive struct {
	ctx    context.Context
	stop   context.CancelFunc
	before time.Duration
	timer  *time.Timer   // of the next look
	pause  time.Duration // after a failed try
}

// KeepAlive extends the lock by its TTL from now on, each time beforeExpiry before it
// expires, until ctx ends, Release is called or the lock is lost. It returns at once. If
// the lock has expired since it was acquired, KeepAlive acquires it again first. It is an
// error to call KeepAlive before Acquire or after Release, or with a time that is
// negative or not below the TTL. A second call has no effect while the keep-alive of the
// first one runs.
//
// A failed request is retried. If no retry succeeds in time, IsAcquired turns false
// before another owner can be granted the lock; if the server no longer has the lock, it
// turns false at once. It never turns true again by itself: call Acquire and KeepAlive to
// continue. If beforeExpiry leaves no room for retries, the lock is extended earlier.
func (l *Lock) KeepAlive(ctx context.Context, beforeExpiry time.Duration) error {
	if err := ctx.Err(); err != nil {
		return wrap("keep alive", l.ID, err)
	}
	if l.state == nil {
		return errNotAcquired
	}
	ttl, err := l.start(ctx, beforeExpiry)
	if ttl == 0 || err != nil {
		return err
	}
	// It has expired.
	if err := l.Acquire(ctx, ttl); err != nil {
		return err
	}
	_, err = l.start(ctx, beforeExpiry)
	return err
}

var errNotAcquired = errors.New("acquire lock before keep alive")

// start starts the keep-alive unless it runs. If the lock has expired, start instead
// returns the TTL with which to acquire it.
func (l *Lock) start(ctx context.Context, before time.Duration) (expired time.Duration, err error) {
	s := l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	l.show()
	h := s.hold
	switch {
	case h == nil || h.over == releasing || h.over == released:
		return 0, errNotAcquired
	case before < 0 || before >= h.ttl:
		return 0, fmt.Errorf("%w: KeepAlive's beforeExpiry (%v) must be smaller than lock's TTL (%v), and not negative", driver.ErrInvalid, before, h.ttl)
	case s.safe() == 0:
		return h.ttl, nil
	case s.keepAlive != nil && s.keepAlive.ctx.Err() == nil:
		return 0, nil
	}
	k := &keepAlive{before: before}
	k.ctx, k.stop = context.WithCancel(ctx)
	k.timer = time.AfterFunc(s.due(k), func() { s.maintain(k) })
	s.keepAlive = k
	return 0, nil
}

// longestPause is the longest pause between two tries to extend.
const longestPause = time.Second

// due returns how long to wait before the hold is extended. The time left after that is
// long enough for an extension, and there are at most eight extensions in a TTL. state.mu
// is held.
func (s *state) due(k *keepAlive) time.Duration {
	h, before := s.hold, k.before
	if before >= h.ttl {
		before = h.ttl / 2 // the last Acquire had a shorter TTL than the one before KeepAlive
	}
	return h.end - min(max(before, 2*driver.DefaultMargin(h.ttl)), h.ttl-h.ttl/8) - s.clock()
}

// maintain extends the lock when due, and sets the timer unless the lock is lost.
func (s *state) maintain(k *keepAlive) {
	if s.begin(k.ctx) != nil {
		return
	}
	defer s.done()
	s.mu.Lock()
	h, safe, due := s.hold, s.safe(), s.due(k)
	s.mu.Unlock()
	var err error
	switch {
	case safe == 0 || k.ctx.Err() != nil:
		k.stop()
		return
	case due <= 0: // unless another caller has extended it
		call, cancel := context.WithTimeout(k.ctx, min(attemptTime(h.ttl), safe/2+1)) // leaves room for another try
		err = s.extend(call, h, h.ttl)
		cancel()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, driver.ErrLost):
		k.stop()
	case err != nil:
		k.pause = min(max(2*k.pause, time.Millisecond), longestPause)
		k.timer.Reset(k.pause)
	default:
		k.pause = 0
		k.timer.Reset(s.due(k))
	}
}
