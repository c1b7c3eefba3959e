package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// keeping is a keep-alive that is running.
type keeping struct {
	ctx    context.Context
	stop   context.CancelFunc
	before time.Duration
	news   chan struct{} // another end: look again when to extend
}

func (k *keeping) nudge() {
	if k == nil {
		return
	}
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// KeepAlive extends the lock by its TTL from now on, each time that long before it
// expires, until ctx ends, Release is called or the lock is lost; then it ends by
// itself after its TTL, if it was not released. It returns at once. A lock that
// has expired since it was acquired is acquired again first. It is an error to
// call it before Acquire or after Release, or with a time that is negative or not
// below the TTL. Calling it again while it runs does nothing.
//
// To extend is tried again until it succeeds. If it does not in time, IsAcquired
// turns false before anybody else can be granted the lock; if the server no longer
// has the lock, it does so at once. It never turns true again by itself: call
// Acquire and KeepAlive to go on. With a time that leaves no room for that, the
// lock is extended earlier.
func (l *Lock) KeepAlive(ctx context.Context, beforeExpiry time.Duration) error {
	if err := ctx.Err(); err != nil {
		return wrap("keep alive", l.ID, err)
	}
	s := l.state
	if s == nil {
		return errNotAcquired
	}
	started, err := l.start(ctx, beforeExpiry)
	if started || err != nil {
		return err
	}
	// It has expired.
	s.mu.Lock()
	ttl := s.hold.ttl
	s.mu.Unlock()
	if err := l.Acquire(ctx, ttl); err != nil {
		return err
	}
	_, err = l.start(ctx, beforeExpiry)
	return err
}

var errNotAcquired = errors.New("acquire lock before keep alive")

// start starts the keep-alive, unless it runs or the lock has expired.
func (l *Lock) start(ctx context.Context, before time.Duration) (started bool, err error) {
	s := l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	l.show()
	h := s.hold
	switch {
	case h == nil || h.over == given || h.over == released:
		return false, errNotAcquired
	case before < 0 || before >= h.ttl:
		return false, fmt.Errorf("%w: KeepAlive's beforeExpiry (%v) must be smaller than lock's TTL (%v), and not negative", driver.ErrInvalid, before, h.ttl)
	case !s.held():
		return false, nil
	case s.keeping != nil && s.keeping.ctx.Err() == nil:
		return true, nil
	}
	k := &keeping{before: before, news: make(chan struct{}, 1)}
	k.ctx, k.stop = context.WithCancel(ctx)
	s.keeping = k
	go func() {
		defer k.stop()
		for s.wait(k) && s.keep(k) {
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.keeping == k {
			s.keeping = nil
		}
	}()
	return true, nil
}

// wait waits until the lock is to be extended, and reports whether it still is.
func (s *state) wait(k *keeping) bool {
	for {
		s.mu.Lock()
		h := s.hold
		due, live := s.due(h, k)-s.clock(), h.over == not
		s.mu.Unlock()
		if !live {
			return false
		}
		if due <= 0 {
			return true
		}
		timer := time.NewTimer(due)
		select {
		case <-timer.C:
		case <-k.news:
		case <-k.ctx.Done():
		}
		timer.Stop()
		if k.ctx.Err() != nil {
			return false
		}
	}
}

// due is when the hold is to be extended: while there is a margin left to do it
// in, and no more than eight times a TTL. state.mu is held.
func (s *state) due(h *hold, k *keeping) time.Duration {
	before := k.before
	if before >= h.ttl {
		before = h.ttl / 2 // the last Acquire was for less than the one before KeepAlive
	}
	return h.end - min(max(before, 2*holdfast.DefaultMargin(h.ttl)), h.ttl-h.ttl/8)
}

// keep extends the hold, and reports whether it did. It asks until the hold is no
// longer safe, and leaves others the turn in between.
func (s *state) keep(k *keeping) bool {
	for pause := time.Millisecond; ; pause = min(2*pause, longestPause) {
		extended, err := s.keepOnce(k)
		if extended || errors.Is(err, driver.ErrLost) {
			return extended
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-k.ctx.Done():
		}
		timer.Stop()
		if k.ctx.Err() != nil {
			return false
		}
	}
}

// keepOnce asks once, if there is still need.
func (s *state) keepOnce(k *keeping) (extended bool, err error) {
	if err := s.begin(k.ctx); err != nil {
		return false, err
	}
	defer s.done()
	s.mu.Lock()
	h := s.hold
	ttl, left, due := h.ttl, h.safe()-s.clock(), s.due(h, k)-s.clock()
	live := h.over == not && left > 0
	s.mu.Unlock()
	switch {
	case !live:
		return false, driver.ErrLost
	case due > 0: // somebody else had the turn, and extended it
		return true, nil
	}
	err = s.extend(k.ctx, h, ttl, min(attemptTime(ttl), left/2+1)) // room for another one
	return err == nil, err
}

// longestPause is the longest one between two tries to extend.
const longestPause = time.Second

// extend extends the hold for the keep-alive. A passed deadline is final: an
// answer that comes after it does not revive what the holder may have been told is
// gone.
//
// A program with es-distributed-lock and the same owner that extends the lock
// makes it its own, and ends the hold as far as the store is concerned. The owner
// still has it, so that one is kept alive then. A hold of any other program is a
// new one: there was a time without.
func (s *state) extend(ctx context.Context, h *hold, ttl, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	x, err := s.renew(ctx, h.ref, ttl)
	if errors.Is(err, driver.ErrLost) && !h.ref.HoldID.IsZero() {
		old := driver.HoldRef{Resource: h.ref.Resource, LockID: h.ref.LockID}
		own, listErr := s.owners(ctx, old)
		switch {
		case listErr != nil:
			err = listErr // it may be so: ask again
		case len(own) == 1 && own[0].Ref() == old:
			if x, err = s.renew(ctx, old, ttl); err == nil {
				h = &hold{ref: old, acquired: h.acquired}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch before := s.hold; {
	case before.over != not: // released meanwhile
	case s.clock() >= before.safe():
		return driver.ErrLost
	case errors.Is(err, driver.ErrLost):
		before.lose()
	case err == nil:
		h.extend(x)
		s.hold = h
	}
	return err
}
