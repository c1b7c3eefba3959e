package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// patience is how long a release without an answer is repeated.
	patience = 5 * time.Second
	// late is how long after its end a hold that was given up is remembered.
	late = time.Minute
)

// Release releases the lock if it is still held, and ends its keep-alive. It is no
// error if the lock was lost or released before, or if another owner has it. A
// Lock that never tried to acquire releases what its owner holds, as a program
// does that was started again.
//
// Without an answer it is tried again for five seconds. After an error the lock
// may live on to its end, and Release may be called again; IsAcquired is false in
// any case.
func (l *Lock) Release() error { return l.release(false) }

// MustRelease is Release, but it is an error if there was nothing to release.
func (l *Lock) MustRelease() error { return l.release(true) }

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
	certain := s.stop()
	_ = s.begin(context.Background()) // whoever has the turn has it for a bounded time
	defer s.done()
	s.stop() // what was acquired meanwhile
	s.mu.Lock()
	l.show()
	h, tried := s.hold, s.tried
	if h != nil && h.over == released {
		s.mu.Unlock()
		if must {
			return wrap("release", ref.Resource, errReleased)
		}
		return nil
	}
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found := false
	switch {
	case h != nil:
		s.remember(h.ref, h.ttl)
		var repeated bool
		repeated, found, err = s.releaseAgain(ctx, h.ref)
		// Where it was there for certain, it was the try without an answer that
		// released it.
		found = found || repeated && certain
	case !tried:
		found, err = s.releaseOwners(ctx, ref)
	}
	if err != nil {
		return wrap("release", ref.Resource, err)
	}
	if h != nil {
		s.mu.Lock()
		h.over = released
		s.mu.Unlock()
	}
	if must && !found {
		return wrap("release", ref.Resource, fmt.Errorf("%w (client: %v)", errNoRelease, ref.LockID))
	}
	return nil
}

// stop ends the keep-alive and gives up what is held. It reports whether that was
// one's own for certain.
func (s *state) stop() (certain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeping != nil {
		s.keeping.stop()
	}
	certain = s.held()
	if s.hold != nil && s.hold.over == not {
		s.hold.over = given
		s.hold.shorten()
	}
	return certain
}

// remember notes that the hold is given up, and forgets others that have ended.
func (s *state) remember(ref driver.HoldRef, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	for id, until := range s.given {
		if until < now {
			delete(s.given, id)
		}
	}
	s.given[ref.HoldID] = now + ttl + late
}

// giveBack releases what may have been granted unheard, or it would be in the way
// of others. The caller waits until the server was asked once, or ctx ends; what
// has no answer then is repeated without the caller.
func (s *state) giveBack(ctx context.Context, ref driver.HoldRef, ttl time.Duration) {
	s.remember(ref, ttl)
	asked := make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := s.releaseOnce(ctx, ref)
		close(asked)
		if err != nil && !definite(err) {
			// What matters to the caller is why it was not granted.
			_, _, _ = s.releaseAgain(ctx, ref)
		}
	}()
	select {
	case <-asked:
	case <-ctx.Done():
	}
}

// releaseAgain asks until there is an answer. A release names one hold and no
// other, and may be repeated; one of a hold of es-distributed-lock, which has no
// ID, is sent once.
func (s *state) releaseAgain(ctx context.Context, ref driver.HoldRef) (repeated, found bool, err error) {
	for pause := 25 * time.Millisecond; ; pause *= 2 {
		found, err = s.releaseOnce(ctx, ref)
		if err == nil || definite(err) || ref.HoldID.IsZero() {
			return repeated, found, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			repeated = true
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return repeated, false, err
		}
	}
}

func (s *state) releaseOnce(ctx context.Context, ref driver.HoldRef) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience/2) // room for another one
	defer cancel()
	results, err := s.store.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref}})
	if err == nil {
		err = first(results, func(r driver.ReleaseResult) error { return r.Err })
	}
	return err == nil && results[0].Found, err
}

// releaseOwners releases the hold that the owner has, whoever acquired it. It
// looks first, so that the release names a hold where it can.
func (s *state) releaseOwners(ctx context.Context, ref driver.HoldRef) (found bool, err error) {
	asked := s.clock()
	own, err := s.owners(ctx, ref)
	if errors.Is(err, driver.ErrUnusable) {
		if err = s.prepare(ctx, toPrepare); err == nil {
			own, err = s.owners(ctx, ref)
		}
	}
	for _, h := range own {
		if h.Mode == driver.Exclusive && err == nil {
			certain := s.clock()-asked < h.Left
			var repeated bool
			repeated, found, err = s.releaseAgain(ctx, h.Ref())
			found = found || repeated && certain
		}
	}
	return found, err
}

// owners returns the holds that the owner has: one, if it is exclusive.
func (s *state) owners(ctx context.Context, ref driver.HoldRef) (holds []driver.Status, err error) {
	for h, err := range s.store.List(ctx, driver.Filter{Resource: ref.Resource, LockID: ref.LockID}) {
		if err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
	return holds, nil
}
