package lock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// maxTries is how often Acquire starts again because the hold that it wanted to extend
// had ended or the index was missing.
const maxTries = 5

// heldError has the text that programs compare with.
type heldError struct{ by *driver.HeldError }

func (heldError) Error() string   { return "lock held by other client" }
func (e heldError) Unwrap() error { return e.by }

// Acquire acquires the lock for the TTL, or extends it if the owner has it. It does not
// wait: the error "lock held by other client" means that another owner has the lock. The
// TTL is at least 1 ms and at most 100 years, and is truncated to milliseconds. An
// extension never shortens the lock: Expires is when it ends.
//
// The server has a third of the TTL to answer, at least 1 s and at most 10 s. Before
// that, the first Acquire through a client creates or checks the index and makes the
// server compile the scripts, in at most 10 s.
//
// After any other error, the server may have granted a lock without the answer arriving.
// Acquire then releases it, and repeats the release in the background for up to five
// seconds. A lock that was held before lasts until its end. So does a lock that another
// Lock of the owner has extended since then.
func (l *Lock) Acquire(ctx context.Context, ttl time.Duration) error {
	ref, err := l.ref()
	if err == nil && (ttl < time.Millisecond || ttl > driver.MaxTTL) {
		err = fmt.Errorf("%w: TTL %v is not between 1 ms and 100 years", driver.ErrInvalid, ttl)
	}
	if err == nil {
		err = ctx.Err()
	}
	s := l.state
	if err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		return wrap("acquire", l.ID, err)
	}
	defer s.done()
	ttl = ttl.Truncate(time.Millisecond)
	err = s.obtain(ctx, ref, ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.show()
	var held heldError
	switch {
	case errors.As(err, &held):
		return held // programs compare the text
	case err == nil && s.hold.over != notOver:
		err = errors.New("it was released meanwhile")
	case err == nil && s.safe() == 0:
		err = fmt.Errorf("the answer came when the lock was about to end: %w", holdfast.ErrTTLTooShort)
	}
	if err != nil {
		return wrap("acquire", l.ID, err)
	}
	if s.keepAlive != nil {
		s.keepAlive.timer.Reset(0) // the end has changed
	}
	return nil
}

// obtain extends the hold of this Lock, or of another Lock or program of the owner, or
// acquires a new one.
func (s *state) obtain(ctx context.Context, ref driver.HoldRef, ttl time.Duration) (err error) {
	s.mu.Lock()
	s.tried = true
	s.mu.Unlock()
	prepared := false
	if !s.store.prepared.Load() {
		err := s.store.prepare(ctx)
		if err != nil && !errors.Is(err, driver.ErrUnusable) && !forbidden(err) { // a user without the right to look at the index may still lock
			return err
		}
		prepared = err == nil
	}
	for range maxTries {
		call, cancel := context.WithTimeout(ctx, attemptTime(ttl))
		if h := s.own(ref); h != nil {
			err = s.extend(call, h, ttl)
		} else {
			err = s.grant(ctx, call, ref, ttl)
		}
		cancel()
		switch {
		case errors.Is(err, driver.ErrUnusable) && !prepared:
			// The index was deleted or is unfit for locks.
			if err := s.store.prepare(ctx); err != nil {
				return err
			}
			prepared = true
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return fmt.Errorf("no answer within %v, the most for a lock of %v: %w", attemptTime(ttl), ttl, err)
		case !errors.Is(err, driver.ErrLost):
			return err
		}
	}
	return err
}

// forbidden reports whether the server said that the user lacks a right.
func forbidden(err error) bool {
	var answer interface {
		error
		HTTPStatus() int
	}
	return errors.As(err, &answer) && answer.HTTPStatus() == http.StatusForbidden
}

// own returns the hold of this Lock, or nil if it cannot be extended.
func (s *state) own(ref driver.HoldRef) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hold; s.safe() > 0 && h.ref.Resource == ref.Resource && h.ref.LockID == ref.LockID {
		return h
	}
	return nil
}

// attemptTime returns how long one request about a lock with this TTL may take, as in
// holdfast.Client.
func attemptTime(ttl time.Duration) time.Duration {
	return min(max(ttl/3, time.Second), 10*time.Second)
}

// grant acquires a new hold, or extends the owner's hold of another Lock or program. The
// request ends with call, work in the background with ctx.
func (s *state) grant(ctx, call context.Context, ref driver.HoldRef, ttl time.Duration) error {
	ref.HoldID = driver.NewHoldID()
	q := driver.AcquireRequest{Resource: ref.Resource, LockID: ref.LockID, HoldID: ref.HoldID, TTL: ttl}
	sent, now := s.clock(), time.Now()
	g, err := s.store.Acquire(call, q)
	var held *driver.HeldError
	switch {
	case errors.As(err, &held):
		return s.join(call, held, ref.LockID, ttl)
	case err == nil:
		ref.Token = g.Token
		s.mu.Lock()
		s.hold = &hold{ref: ref, ttl: ttl, acquired: now, expires: now.Add(ttl), end: sent + ttl}
		s.mu.Unlock()
	case !driver.Definite(err):
		s.giveBack(ctx, ref)
	}
	return err
}

// join extends the owner's hold of another Lock or program.
func (s *state) join(ctx context.Context, held *driver.HeldError, owner string, ttl time.Duration) error {
	i := slices.IndexFunc(held.Holders, func(h driver.Status) bool {
		return h.LockID == owner && h.Mode == driver.Exclusive && h.Live() && !h.Released
	})
	if i < 0 {
		return heldError{held}
	}
	found := held.Holders[i]
	s.mu.Lock()
	givenUp := slices.Contains(s.givenUp, found.HoldID)
	s.mu.Unlock()
	if givenUp {
		// A release that may still arrive would end it. A new hold is not affected.
		if _, err := s.store.releaseOne(ctx, driver.ReleaseRequest{HoldRef: found.Ref()}); err != nil {
			return err
		}
		return driver.ErrLost
	}
	return s.extend(ctx, &hold{ref: found.Ref(), acquired: found.Created}, ttl)
}

// extend extends the hold of this Lock, or another hold that becomes its hold. A passed
// deadline is final: a later answer does not revive the hold, because IsAcquired may have
// returned false.
//
// When a program with es-distributed-lock and the same owner extends the lock, it makes a
// new hold, without an ID. The owner still has the lock, so extend continues with that
// hold. It does not accept holds of other programs: another owner may have had the lock
// in between.
func (s *state) extend(ctx context.Context, h *hold, ttl time.Duration) error {
	sent, now, ref := s.clock(), time.Now(), h.ref
	left, err := s.store.renewOne(ctx, ref, ttl)
	if errors.Is(err, driver.ErrLost) && !ref.HoldID.IsZero() {
		old := driver.HoldRef{Resource: ref.Resource, LockID: ref.LockID}
		switch own, found, listErr := s.store.ownHold(ctx, old); {
		case listErr != nil:
			err = listErr // that may have happened: try again
		case found && own.Ref() == old:
			ref, sent, now = old, s.clock(), time.Now()
			left, err = s.store.renewOne(ctx, old, ttl)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch mine := h == s.hold; {
	case mine && s.safe() == 0: // too late, or it was released since
		return driver.ErrLost
	case mine && errors.Is(err, driver.ErrLost):
		h.finish(lost)
	case err == nil:
		s.hold, h.ref, h.ttl = h, ref, ttl
		if sent+left > h.end { // a hold never ends earlier than it would have
			h.end, h.expires = sent+left, now.Add(left)
		}
	}
	return err
}

// giveBack releases a hold that may have been granted without an answer, because it would
// block others. The ref has no token, so the release spares a hold that another Lock or
// program of the owner has joined, however late the release arrives. All other releases
// name the token of their hold. giveBack waits for the first release, or until ctx ends,
// and repeats it in the background.
func (s *state) giveBack(ctx context.Context, ref driver.HoldRef) {
	q := driver.ReleaseRequest{HoldRef: ref}
	asked := make(chan struct{})
	go func() {
		_, err := s.store.releaseOne(context.Background(), q)
		close(asked)
		if err != nil && !driver.Definite(err) {
			_, _ = s.release(q, false) // the caller gets the error of the acquire
		}
	}()
	select {
	case <-asked:
	case <-ctx.Done():
	}
}
