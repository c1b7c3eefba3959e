package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// Release releases the lock if it is still held, and ends its keep-alive. It is not an
// error if the lock was lost or released before, or if another owner has it. A Lock that
// never tried to acquire releases the hold of its owner, for programs that were
// restarted.
//
// Release retries for five seconds. After an error the lock may last until its end, and
// Release may be called again. In either case IsAcquired is false.
func (l *Lock) Release() error { return l.release(false) }

// MustRelease is like Release, but returns an error if there was nothing to release.
func (l *Lock) MustRelease() error { return l.release(true) }

// patience is how long an unanswered release is retried.
const patience = 5 * time.Second

var (
	errReleased  = errors.New("lock was already released")
	errNoRelease = errors.New("release had no effect")
)

func (l *Lock) release(must bool) error {
	ref, err := l.ref()
	if err != nil {
		return wrap("release", l.ID, err)
	}
	s := l.state
	s.mu.Lock()
	safe := s.stop()
	s.mu.Unlock()
	_ = s.begin(context.Background()) // each turn has a bounded length
	defer s.done()
	s.mu.Lock()
	s.stop() // a hold acquired since
	l.show()
	h, tried := s.hold, s.tried
	if h != nil && h.over == released {
		s.mu.Unlock()
		if must {
			return wrap("release", l.ID, errReleased)
		}
		return nil
	}
	s.mu.Unlock()

	var found bool
	switch {
	case h != nil:
		found, err = s.release(driver.ReleaseRequest{HoldRef: h.ref}, safe)
	case !tried:
		found, err = s.releaseOwner(ref)
	}
	if err != nil {
		return wrap("release", l.ID, err)
	}
	if h != nil {
		s.mu.Lock()
		h.over = released
		s.givenUp = slices.DeleteFunc(s.givenUp, func(id driver.HoldID) bool { return id == h.ref.HoldID })
		s.mu.Unlock()
	}
	if must && !found {
		return wrap("release", l.ID, fmt.Errorf("%w (client: %v)", errNoRelease, ref.LockID))
	}
	return nil
}

// stop ends the keep-alive and gives up the hold. It reports whether the hold certainly
// existed. state.mu is held.
func (s *state) stop() (safe bool) {
	safe = s.safe() > 0
	if s.keepAlive != nil {
		s.keepAlive.stop()
	}
	if h := s.hold; h != nil && h.over == notOver {
		s.giveUp(h.ref.HoldID)
		h.finish(releasing)
	}
	return safe
}

// giveUp notes that a release of the hold may still arrive. It keeps only the last few
// holds: all earlier releases have arrived. state.mu is held.
func (s *state) giveUp(id driver.HoldID) {
	const most = 10
	s.givenUp = append(s.givenUp, id)
	s.givenUp = s.givenUp[max(len(s.givenUp)-most, 0):]
}

// release retries until there is an answer, and reports whether the hold existed. safe
// says that it certainly did: if a retry finds nothing, the try without an answer has
// released it. A release names one hold, so it can be repeated. A hold of
// es-distributed-lock has no ID: its release is sent once.
func (s *state) release(q driver.ReleaseRequest, safe bool) (found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const first = 25 * time.Millisecond
	for pause := first; ; pause *= 2 {
		found, err = s.store.releaseOne(ctx, q)
		if err == nil || driver.Definite(err) || q.HoldID.IsZero() {
			return found || err == nil && safe && pause > first, err
		}
		if backoff.Wait(ctx, pause) != nil {
			return false, err
		}
	}
}

// releaseOwner releases the owner's hold, even if another program acquired it. It looks
// first, so that the release can name the hold if it has an ID.
func (s *state) releaseOwner(owner driver.HoldRef) (found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	h, found, err := s.store.ownHold(ctx, owner)
	if errors.Is(err, driver.ErrUnusable) {
		if err = s.store.prepare(ctx); err == nil {
			h, found, err = s.store.ownHold(ctx, owner)
		}
	}
	if !found || err != nil {
		return false, err
	}
	return s.release(driver.ReleaseRequest{HoldRef: h.Ref()}, time.Since(began) < h.Left)
}
