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
	// lookEvery is how often the server looks whether the ID is still there, lookSoon how often if
	// a call of the store has failed since, and lookNow how often if a grant waits for that.
	lookEvery, lookSoon, lookNow = 10 * time.Second, time.Second, 20 * time.Millisecond
	// idLease is the TTL with which the hold is acquired, before it is renewed to one
	// without an end.
	idLease = time.Minute
	idOwner = "holdfast serve"
	idNote  = "The lock ID of this hold names this store of locks. All servers of the store keep it: do not release it."
)

// identity is what the server knows of the ID.
type identity struct {
	found chan struct{} // closed once it is known
	poked chan struct{} // has room for one: when to look next may have changed

	mu      sync.Mutex
	ref     driver.HoldRef
	changed bool // the store has another one now, or none
	err     error
	// failed counts the calls of the store that failed, and cleared has how many of them there
	// were when the last look began that was answered: a store that comes back after the others
	// may be another one.
	failed, cleared uint64
	hinted          bool          // there is a reason to look soon
	asked           int           // grants that wait for a look
	looked          time.Time     // when the last one was over
	next            chan struct{} // closed at the end of the next one
}

func newIdentity() identity {
	return identity{found: make(chan struct{}), poked: make(chan struct{}, 1), next: make(chan struct{})}
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

// suspect notes that a call of the store has failed: it may come back as another one. The server
// looks at the ID soon, and each grant waits for that. If it is not sure, as of a hold that is not
// there, that is so once a second at most: a caller could cause it again and again.
func (i *identity) suspect(sure bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if sure || time.Since(i.looked) >= lookSoon {
		i.failed++
	}
	i.hinted = true
	i.poke()
}

func (i *identity) poke() {
	select {
	case i.poked <- struct{}{}:
	default:
	}
}

// settle reports whether a grant may be told: if a call has failed, not before a look was
// answered that began later, and shows the ID. It waits for one as long as ctx lasts.
func (i *identity) settle(ctx context.Context) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	defer func() { i.asked-- }()
	for failed := i.failed; i.cleared < failed; {
		next := i.next
		i.poke()
		i.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
		}
		i.mu.Lock()
		if ctx.Err() != nil {
			return false
		}
	}
	return !i.changed
}

// same reports whether the store is the same one as far as is known. If a call has failed, it waits
// for a look, but for a second at most: it is for requests that grant nothing.
func (i *identity) same(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookSoon)
	defer cancel()
	return i.settle(ctx) || i.ready()
}

// pause returns how long it is until the next look.
func (i *identity) pause() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	every := lookEvery
	switch {
	case i.cleared < i.failed && i.asked > 0:
		every = lookNow
	case i.cleared < i.failed, i.hinted:
		every = lookSoon
	}
	return time.Until(i.looked.Add(every))
}

// identify prepares the store, finds out its ID or makes it, and looks at it from time to
// time until the server is closed.
func (s *Server) identify() {
	i, pauses := &s.identity, backoff.New(identifyFirst, identifyLimit)
	for {
		ref, err := s.prepare()
		i.mu.Lock()
		if i.err = err; err == nil {
			i.ref, i.looked = ref, time.Now()
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
	for {
		timer := time.NewTimer(i.pause())
		select {
		case <-timer.C:
			s.lookAtID()
		case <-i.poked:
			timer.Stop()
		case <-s.scope.Life.Done():
			timer.Stop()
			return
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

// lookAtID looks whether the hold that names the store is still there. A renewal decides that: it
// is as sure as the store is, and a hold without an end stays as it is.
func (s *Server) lookAtID() {
	ctx, cancel := context.WithTimeout(s.scope.Life, min(s.opts.StoreTimeout, health.Patience))
	defer cancel()
	i := &s.identity
	i.mu.Lock()
	failed, ready := i.failed, !i.changed
	i.hinted = false
	i.mu.Unlock()
	began := time.Now()
	_, err := s.makeEndless(ctx, i.ref)
	lost := errors.Is(err, driver.ErrLost)
	switch {
	case lost && ready:
		s.opts.Health.Replaced(s.opts.LongestTTL())
		s.opts.Logger.Error("holdfast server: the store no longer has its ID: it was replaced, restored or emptied, or the ID was released. "+
			"No lock is granted. If the old store comes back, the server goes on by itself. "+
			"If it is gone, wait until nobody works on with a lock of it, then restart all servers", "store", i.ref.LockID)
	case err == nil && !ready:
		s.opts.Health.Prepared()
		s.opts.Logger.Info("holdfast server: the store has its ID again", "store", i.ref.LockID)
	}
	took := time.Since(began)
	s.opts.Health.StoreCall(s.scope.Life, "id", took, err) // it says nothing of the renewals of others
	s.observe(s.scope.Life, "renew", took, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.looked = time.Now(); err == nil || lost {
		i.changed, i.cleared = lost, failed
	}
	close(i.next)
	i.next = make(chan struct{})
}

// errNotReady: the store is another one, or may be. Callers are told what notReady says.
var errNotReady = errors.New("no lock is granted")

// notReady returns why no lock is granted, for everybody: nothing of it is a secret.
func (s *Server) notReady() string {
	state := s.opts.Health.Now()
	if state.Level < health.Starting { // it has just changed
		return "the server is not ready"
	}
	return state.Says()
}
