package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/server/health"
)

// The ID of a store is the lock ID of a hold without an end of the reserved resource. All
// servers of the store find the same, whichever of them made it. Callers that reach two
// stores under one address see that it changes, and stop: both stores would grant.

const (
	identifyFirst, identifyLimit = 100 * time.Millisecond, 10 * time.Second
	// lookEvery is how often the server looks whether the ID is still there, and lookSoon how
	// often if the store has not answered that.
	lookEvery, lookSoon = 10 * time.Second, time.Second
	// idLease is the TTL with which the hold is acquired, before it is renewed to one
	// without an end.
	idLease = time.Minute
	idOwner = "holdfast serve"
	idNote  = "The lock ID of this hold names this store of locks. All servers of the store keep it: do not release it."
)

// identity is what the server knows of the ID.
type identity struct {
	found chan struct{} // closed once it is known

	doubted chan struct{} // has room for one: look at once

	mu      sync.Mutex
	ref     driver.HoldRef
	changed bool // the store has another one now, or none
	err     error
	// doubt: a call of the store has failed since it was last seen to have the ID. It may come
	// back as another one.
	doubt    bool
	answered bool          // the last look
	looked   time.Time     // when that was
	next     chan struct{} // closed at the end of the next look
}

func newIdentity() identity {
	return identity{found: make(chan struct{}), doubted: make(chan struct{}, 1), next: make(chan struct{})}
}

// StoreID returns the ID of the store, which is in each answer, or "" as long as it is not
// known. It never changes.
func (s *Server) StoreID() string {
	s.identity.mu.Lock()
	defer s.identity.mu.Unlock()
	return s.identity.ref.LockID
}

// ready reports whether the ID is known, and is that of the store as far as it answered.
func (i *identity) ready() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ref.LockID != "" && !i.changed
}

// suspect makes the server look at the ID soon if a call of the store has failed, and at once
// if one is answered after a look was not: a store that comes back may be another one. However
// many calls fail, there is one look a second.
func (i *identity) suspect(failed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ref.LockID == "" || i.answered != failed {
		return
	}
	i.doubt = i.doubt || i.rest() <= 0
	i.lookNow()
}

// rest returns how long it is until the next look if there is no doubt.
func (i *identity) rest() time.Duration { return lookSoon - time.Since(i.looked) }

func (i *identity) lookNow() {
	select {
	case i.doubted <- struct{}{}:
	default:
	}
}

// settle reports whether a grant may be told. If there is a doubt, a look decides that begins
// after the grant, but who has the lock waits for a second at most: the hold of the ID may be
// behind an address that does not answer, where others do.
func (i *identity) settle(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookSoon)
	defer cancel()
	for range 2 { // the first look may have begun before
		i.mu.Lock()
		doubt, next := i.doubt, i.next
		i.mu.Unlock()
		if !doubt {
			break
		}
		i.lookNow()
		select {
		case <-next:
		case <-ctx.Done():
		}
	}
	return i.ready()
}

// identify prepares the store, finds out its ID or makes it, and looks at it from time to
// time until the server is closed.
func (s *Server) identify() {
	i, pauses := &s.identity, backoff.New(identifyFirst, identifyLimit)
	for {
		ref, err := s.prepare()
		i.mu.Lock()
		if i.err = err; err == nil {
			i.ref, i.answered, i.looked = ref, true, time.Now()
		}
		i.mu.Unlock()
		if err == nil {
			s.opts.Health.Prepared()
			close(i.found)
			break
		}
		if s.scope.Life.Err() != nil {
			return
		}
		s.opts.Health.Preparing(err)
		s.failures.note("init", err)
		if backoff.Wait(s.scope.Life, pauses.Next()) != nil {
			return
		}
	}
	for pause := lookEvery; ; {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-i.doubted:
			timer.Stop()
			i.mu.Lock()
			rest := i.rest()
			if i.doubt {
				rest = 0
			}
			i.mu.Unlock()
			if backoff.Wait(s.scope.Life, rest) != nil {
				return
			}
		case <-s.scope.Life.Done():
			timer.Stop()
			return
		}
		pause = lookSoon
		if s.lookAtID() {
			pause = lookEvery
		}
	}
}

// prepare makes all that the server needs in the store. Each step can be repeated.
func (s *Server) prepare() (ref driver.HoldRef, err error) {
	ctx, cancel := context.WithTimeout(s.scope.Life, max(s.opts.StoreTimeout, DefaultStoreTimeout))
	defer cancel()
	began := time.Now()
	defer func() { s.storeCall(s.scope.Life, "init", began, err) }()
	if store, ok := s.store.(driver.Initializer); ok {
		if err := store.Init(ctx); err != nil {
			return ref, err
		}
	}
	hold := driver.NewHoldID()
	ref = driver.HoldRef{Resource: reserved, LockID: driver.NewHoldID().String(), HoldID: hold}
	g, err := s.store.Acquire(ctx, driver.AcquireRequest{
		Resource: reserved, LockID: ref.LockID, HoldID: hold, TTL: idLease, Details: driver.Details{Owner: idOwner, Comment: idNote},
	})
	var held *driver.HeldError
	switch {
	case err == nil:
		ref.Token = g.Token
	case errors.As(err, &held):
		if ref, err = idOf(held); err != nil {
			return ref, err
		}
	default: // if it was applied, it ends by its TTL, or another server keeps it
		return ref, err
	}
	// The server that finds it keeps it: the one that made it may be gone.
	_, err = s.makeEndless(ctx, ref)
	return ref, err
}

// makeEndless renews a hold to one without an end, and returns the time that it has left.
func (s *Server) makeEndless(ctx context.Context, ref driver.HoldRef) (time.Duration, error) {
	rs, err := s.store.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: driver.Forever}})
	switch {
	case err != nil:
		return driver.Unknown, fmt.Errorf("no answer to a renewal: %w", err)
	case len(rs) == 0:
		return driver.Unknown, errNoResult
	}
	return rs[0].Left, rs[0].Err
}

// idOf returns the hold that names the store.
func idOf(e *driver.HeldError) (driver.HoldRef, error) {
	if len(e.Holders) != 1 {
		return driver.HoldRef{}, fmt.Errorf("%w: %q has %d holders, want one", driver.ErrUnusable, reserved, len(e.Holders))
	}
	h := e.Holders[0]
	raw, err := hex.DecodeString(h.LockID)
	if err != nil || len(raw) != len(h.HoldID) || h.Mode != driver.Exclusive || h.Released {
		return driver.HoldRef{}, fmt.Errorf("%w: %q is held by %s, but it is for the ID of the store: release it",
			driver.ErrUnusable, reserved, h.Holder())
	}
	return h.Ref(), nil
}

// lookAtID looks whether the hold that names the store is still there, and reports whether the
// store has answered. A renewal decides that: it is as sure as the store is, and a hold without
// an end stays as it is.
func (s *Server) lookAtID() (answered bool) {
	ctx, cancel := context.WithTimeout(s.scope.Life, min(s.opts.StoreTimeout, health.Patience))
	defer cancel()
	i := &s.identity
	began := time.Now()
	_, err := s.makeEndless(ctx, i.ref)
	answered = health.FailureOf(err) == health.None
	switch lost := errors.Is(err, driver.ErrLost); {
	case lost && i.ready():
		s.opts.Health.Replaced(s.opts.LongestTTL())
		s.opts.Logger.Error("holdfast server: the store no longer has its ID: it was replaced, restored or emptied, or the ID was released. "+
			"No lock is granted until the server is restarted", "store", i.ref.LockID)
	case err == nil && !i.ready():
		s.opts.Health.Prepared()
		s.opts.Logger.Info("holdfast server: the store has its ID again", "store", i.ref.LockID)
	}
	i.mu.Lock()
	if err == nil || errors.Is(err, driver.ErrLost) {
		i.changed = err != nil
	}
	i.answered, i.looked, i.doubt = answered, time.Now(), !answered
	select {
	case <-i.doubted: // whoever waits for a look that begins later says so again
	default:
	}
	close(i.next)
	i.next = make(chan struct{})
	i.mu.Unlock()
	s.storeCall(s.scope.Life, "renew", began, err)
	return answered
}

// errNotReady: the store is another one, or may be. Callers are told what notReady says.
var errNotReady = errors.New("no lock is granted")

// notReady returns why no lock is granted, for everybody: nothing of it is a secret.
func (s *Server) notReady() string {
	state := s.opts.Health.Now()
	if state.Level != health.Starting && state.Level != health.Replaced { // it has just changed
		return "the server is not ready"
	}
	return state.Says()
}
