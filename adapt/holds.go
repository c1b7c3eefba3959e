package adapt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// ErrNotHeld says that no caller of the adapter holds a lock of that name.
var ErrNotHeld = errors.New("no lock of that name is held")

// busyError: in this process, a caller has the resource, or has lost it and does not know
// yet. It is ErrHeld.
type busyError struct{ resource string }

func (e busyError) Error() string {
	return fmt.Sprintf("holdfast: %q is held by this program, or was lost and is still in use here", e.resource)
}

func (busyError) Is(target error) bool { return target == holdfast.ErrHeld }

// holds are exclusive locks that callers name when they release them. One caller at a
// time has a name, until it calls release: also if its lock was lost meanwhile. So
// nobody's release hits the lock of another caller, and within the process a caller
// that has not noticed the loss never runs beside the next one.
type holds struct {
	client  *holdfast.Client
	prefix  string
	lock    *holdfast.LockOptions
	atLeast time.Duration

	mu    sync.Mutex // not held across I/O
	named map[string]*slot
}

// slot is a name that callers have, or wait for.
type slot struct {
	turn  chan struct{} // has an element while a caller has the name
	users int           // callers that have the name, or want it

	hold    *holdfast.Hold // nil while it is acquired or released
	granted time.Time
	told    bool // RenewLockLease has reported the loss
}

// acquire acquires the lock of the name. With wait it waits until ctx ends; else it
// answers within answerLimit.
func (hs *holds) acquire(ctx context.Context, name string, wait bool) (*holdfast.Hold, error) {
	s := hs.join(name)
	if err := s.take(ctx, hs.prefix+name, wait); err != nil {
		hs.leave(name, s)
		return nil, err
	}
	var h *holdfast.Hold
	var err error
	if wait {
		h, err = hs.client.Lock(ctx, hs.prefix+name, hs.lock)
	} else {
		h, err = tryLock(ctx, hs.client, hs.prefix+name, hs.lock)
	}
	if err != nil {
		<-s.turn
		hs.leave(name, s)
		return nil, err
	}
	hs.mu.Lock()
	s.hold, s.granted, s.told = h, time.Now(), false
	hs.mu.Unlock()
	return h, nil
}

// tryLock is TryLock that takes answerLimit at most.
func tryLock(ctx context.Context, client *holdfast.Client, resource string, o *holdfast.LockOptions) (*holdfast.Hold, error) {
	limited, cancel := context.WithTimeoutCause(ctx, answerLimit, errNoAnswer)
	defer cancel()
	return client.TryLock(limited, resource, o)
}

func (hs *holds) join(name string) *slot {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	s := hs.named[name]
	if s == nil {
		s = &slot{turn: make(chan struct{}, 1)}
		if hs.named == nil {
			hs.named = make(map[string]*slot)
		}
		hs.named[name] = s
	}
	s.users++
	return s
}

func (hs *holds) leave(name string, s *slot) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(hs.named, name)
	}
}

// take makes the caller the one that has the name.
func (s *slot) take(ctx context.Context, resource string, wait bool) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	if !wait {
		return busyError{resource}
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), busyError{resource})
	}
}

// held returns the slot of a name whose lock a caller has, lost or not, and its hold.
func (hs *holds) held(what, name string) (*slot, *holdfast.Hold, error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	s := hs.named[name]
	if s == nil || s.hold == nil {
		return nil, nil, fmt.Errorf("holdfast: %s %q: %w", what, hs.prefix+name, ErrNotHeld)
	}
	return s, s.hold, nil
}

// release releases the lock of the name, and lets the next caller have the name. The
// error is as that of function release.
func (hs *holds) release(ctx context.Context, name string) error {
	hs.mu.Lock()
	s := hs.named[name]
	if s == nil || s.hold == nil {
		hs.mu.Unlock()
		return fmt.Errorf("holdfast: unlock %q: %w", hs.prefix+name, ErrNotHeld)
	}
	h, granted := s.hold, s.granted
	s.hold = nil
	hs.mu.Unlock()
	err := release(ctx, h, granted, hs.atLeast)
	<-s.turn
	hs.leave(name, s)
	return err
}

// under runs fn with a copy of ctx that ends also with the hold. It joins fn's error
// with the reason why the hold ended first, if it did.
func under(ctx context.Context, h *holdfast.Hold, fn func(ctx context.Context) error) error {
	bound, cancel := h.Bind(ctx)
	defer cancel()
	if err := context.Cause(h.Context()); err != nil {
		return err // lost before fn began
	}
	err := fn(bound)
	return withLoss(err, h)
}

// withLoss joins a function's error with the reason why its hold ended before it.
func withLoss(err error, h *holdfast.Hold) error {
	early := context.Cause(h.Context())
	switch {
	case early == nil || errors.Is(err, early):
		return err
	case err == nil:
		return early
	}
	return errors.Join(err, early)
}
