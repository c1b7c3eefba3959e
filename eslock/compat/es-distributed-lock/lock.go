package lock

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/esdoc"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// Lock is one lock of one owner. NewLock makes it. Its methods may be called
// concurrently: Acquire and Release run one after the other, IsAcquired and IsReleased
// never wait. The methods set the fields: read or set them only while no other goroutine
// is in a method of the same Lock.
type Lock struct {
	// ID names the lock, and Owner the owner: 1 to 1024 bytes of UTF-8 without NUL each.
	// Locks with the same owner share their holds. The package documentation explains IDs
	// with %, # or ?.
	ID    string `json:"-"`
	Owner string `json:"owner"`
	// Acquired is when the lock was last granted. Expires is when that lock ends, or
	// ended, unless it is extended; the server never ends it earlier. Both are times of
	// this machine's clock, as the last call of a method set them. A failed Acquire does
	// not change them.
	Acquired time.Time `json:"acquired"`
	Expires  time.Time `json:"expires"`

	state *state // a pointer: copies of a Lock are the same lock
}

// state has the unexported fields of a Lock.
type state struct {
	store   *store
	invalid error // the reason why the store cannot be used
	clock   func() time.Duration
	turn    chan struct{} // holds one value while a caller uses the store

	// mu guards what follows, and the fields of the Lock while methods use them.
	// It is never held across I/O.
	mu        sync.Mutex
	hold      *hold // the last granted hold, or nil
	tried     bool  // Acquire was called
	keepAlive *keepAlive
	// givenUp are the last holds that were released without a confirmation. A late
	// release would end the holds that extended them.
	givenUp []driver.HoldID
}

// hold is a granted lock. It is changed under state.mu.
type hold struct {
	ref      driver.HoldRef
	ttl      time.Duration
	acquired time.Time
	expires  time.Time     // end on the wall clock, for display
	end      time.Duration // on state.clock: the store has the hold at least until then
	over     over
}

// over is the reason why a hold is over. An expired hold is not over: the store may still
// have it.
type over uint8

const (
	notOver   over = iota
	lost           // the store no longer has it
	releasing      // released; the store has not confirmed it yet
	released       // released; the store has confirmed it
)

// safe is how long the hold certainly still exists: it counts as lost before its end, by
// the same margin as in holdfast.Client. state.mu is held.
func (s *state) safe() time.Duration {
	h := s.hold
	if h == nil || h.over != notOver {
		return 0
	}
	return max(h.end-driver.DefaultMargin(h.ttl)-s.clock(), 0)
}

// finish sets the reason why the hold is over. state.mu is held.
func (h *hold) finish(why over) {
	if now := time.Now(); now.Before(h.expires) {
		h.expires = now
	}
	h.over = why
}

// defaultOwner is the owner of all Locks of this process without WithOwner.
var defaultOwner = newUUID()

// newUUID returns a random UUID, of version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// NewLock returns a Lock with this ID in the index distributed-locks, which it reaches
// through the client. It sends nothing. The owner is a random UUID that all Locks of this
// process share; see WithOwner.
//
// The client may be one of Elasticsearch (go-elasticsearch v8 or v9) or OpenSearch
// (opensearch-go v4), or anything else that has the method Perform.
func NewLock(client eslock.Performer, id string) *Lock {
	s, err := storeOf(client)
	l := newLock(s, id)
	l.state.invalid = err
	return l
}

func newLock(s *store, id string) *Lock {
	return &Lock{ID: id, Owner: defaultOwner, state: &state{store: s, clock: clock.New(), turn: make(chan struct{}, 1)}}
}

// WithOwner sets the owner, and returns the same Lock. Call it before Acquire: a lock
// that is already acquired stays with its former owner.
func (l *Lock) WithOwner(owner string) *Lock {
	if l.state != nil {
		l.state.mu.Lock()
		defer l.state.mu.Unlock()
	}
	l.Owner = owner
	return l
}

// IsAcquired reports whether the lock was acquired and is still held. Unless the lock is
// extended, IsAcquired turns false before another owner can be granted the lock, by the
// margin that driver.DefaultMargin returns.
func (l *Lock) IsAcquired() bool {
	s := l.state
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.show()
	return s.safe() > 0
}

// IsReleased reports whether the lock was released or lost, has expired, or was never
// acquired. Both IsReleased and IsAcquired are false while it is unknown whether the
// server got a release, and between the early end of IsAcquired and the end of the lock.
func (l *Lock) IsReleased() bool {
	s := l.state
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.show()
	h := s.hold
	return h == nil || h.over == lost || h.over == released || s.clock() >= h.end
}

// show sets the exported fields. state.mu is held.
func (l *Lock) show() {
	if h := l.state.hold; h != nil && (!l.Acquired.Equal(h.acquired) || !l.Expires.Equal(h.expires)) {
		l.Acquired, l.Expires = h.acquired, h.expires
	}
}

// ref returns the resource and the lock ID for the present ID and Owner.
func (l *Lock) ref() (driver.HoldRef, error) {
	if l.state == nil {
		return driver.HoldRef{}, fmt.Errorf("%w: NewLock did not make this Lock", driver.ErrInvalid)
	}
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	r := driver.HoldRef{Resource: l.ID, LockID: l.Owner}
	switch {
	case l.ID == "":
		return r, fmt.Errorf("%w: the ID is empty", driver.ErrInvalid)
	case l.Owner == "":
		return r, fmt.Errorf("%w: the owner is empty", driver.ErrInvalid)
	}
	if err := cmp.Or(l.state.invalid, r.Validate()); err != nil {
		return r, err
	}
	resource, err := esdoc.Old(l.ID)
	if err != nil {
		return r, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	r.Resource = resource
	return r, nil
}

// begin waits for the caller's turn to use the store. done ends the turn.
func (s *state) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *state) done() { <-s.turn }

// wrap adds the operation and the lock's ID to an error.
func wrap(what, id string, err error) error {
	return fmt.Errorf("es-distributed-lock: %s %s: %w", what, quote.Name(id), err)
}
