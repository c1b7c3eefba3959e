package lock

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/esdoc"
)

// Lock is one lock of one owner. Its methods may be called concurrently; they act
// one after the other, but for IsAcquired and IsReleased, which never wait. The
// fields are for whoever calls the methods: read or set them only where no other
// goroutine may be in a method of the same Lock. Make it with NewLock.
type Lock struct {
	// ID names what is locked, and Owner who locks it: 1 to 1024 bytes of UTF-8
	// without NUL each. Whoever has the same owner shares its locks. What IDs with
	// %, # or ? mean is in the package's documentation.
	ID    string `json:"-"`
	Owner string `json:"owner"`
	// Acquired is when the lock was granted, and Expires when it ends, or ended,
	// unless it is extended: never later than the server has it. They are those of
	// the last lock granted, as the last call of any method found them, on this
	// machine's clock. An Acquire that fails leaves them as they are.
	Acquired time.Time `json:"acquired"`
	Expires  time.Time `json:"expires"`

	state *state // a pointer: copies of a Lock are the same lock
}

// state is all of a Lock that users do not see.
type state struct {
	store   driver.Store
	client  eslock.Performer // nil where it cannot be told from others
	invalid error            // why the store cannot be asked
	clock   func() time.Duration
	turn    chan struct{} // holds one value: the turn to ask the store

	// mu guards what follows, and the fields of the Lock wherever methods touch
	// them. It is never held across I/O.
	mu      sync.Mutex
	hold    *hold // the last one that was granted; nil: none was
	tried   bool  // to acquire
	keeping *keeping
	// given are holds that were given up while it is not known whether the store
	// heard of it, until they have ended for certain: a release that comes late
	// would end whatever was built on them.
	given map[driver.HoldID]time.Duration
}

// hold is a lock that was granted. It is changed under state.mu.
type hold struct {
	ref      driver.HoldRef
	ttl      time.Duration
	acquired time.Time
	expires  time.Time     // end on the wall clock, for people
	end      time.Duration // on the clock: the store has it at least until then
	over     over
}

// over is why a hold is none any more. What time has ended still is one: only
// the store knows.
type over uint8

const (
	not      over = iota
	lost          // the store says so
	given         // released, while the store may not have heard of it
	released      // released, and the store knows
)

// safe is when the hold counts as lost unless it is extended: before its end, by
// the margin that holdfast.Client has.
func (h *hold) safe() time.Duration { return h.end - holdfast.DefaultMargin(h.ttl) }

// shorten makes expires true for a hold that has ended early.
func (h *hold) shorten() {
	if now := time.Now(); now.Before(h.expires) {
		h.expires = now
	}
}

// process is the owner of all locks of this process that are given none.
var process = newUUID()

// newUUID returns a random UUID, of version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// NewLock returns a Lock of what the ID names, in the index distributed-locks that
// the client reaches. Nothing is sent. The owner is a random UUID that all locks
// of this process have; see WithOwner.
//
// The client may be one of Elasticsearch (go-elasticsearch v8 or v9) or OpenSearch
// (opensearch-go v4), or whatever else has the method Perform.
func NewLock(client eslock.Performer, id string) *Lock {
	l := newLock(eslock.New(client, &eslock.Options{OldClients: true}), id)
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		l.state.invalid = fmt.Errorf("%w: the client is nil", driver.ErrInvalid)
	} else if v.Comparable() {
		l.state.client = client
	}
	return l
}

func newLock(store driver.Store, id string) *Lock {
	return &Lock{ID: id, Owner: process, state: &state{
		store: store, clock: clock.New(), turn: make(chan struct{}, 1), given: make(map[driver.HoldID]time.Duration),
	}}
}

// WithOwner sets the owner, and returns the same Lock. It is for a Lock that holds
// nothing: what it has acquired before stays the former owner's.
func (l *Lock) WithOwner(owner string) *Lock {
	if l.state != nil {
		l.state.mu.Lock()
		defer l.state.mu.Unlock()
	}
	l.Owner = owner
	return l
}

// IsAcquired reports whether the lock was acquired and is still held. Unless it is
// extended it turns false before others can be granted the lock, by the margin
// that holdfast.DefaultMargin returns.
func (l *Lock) IsAcquired() bool {
	s := l.state
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.show()
	return s.held()
}

// IsReleased reports whether the lock was released or lost, has expired, or was
// never acquired. Neither this nor IsAcquired is true while it is not known
// whether a release was heard of, or between IsAcquired's early end and the lock's.
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

// held reports whether the hold is one's own for certain. s.mu is held.
func (s *state) held() bool { return s.hold != nil && s.hold.over == not && s.clock() < s.hold.safe() }

// show sets the fields. l.state.mu is held.
func (l *Lock) show() {
	if h := l.state.hold; h != nil && (!l.Acquired.Equal(h.acquired) || !l.Expires.Equal(h.expires)) {
		l.Acquired, l.Expires = h.acquired, h.expires
	}
}

// ref returns the names as they are now, if they can be asked for.
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
	old, err := esdoc.Old(l.ID)
	if err != nil {
		return r, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	r.Resource = old
	return r, nil
}

// begin waits for the turn.
func (s *state) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *state) done() { <-s.turn }

// wrap says what was being done, and to what.
func wrap(what, id string, err error) error {
	return fmt.Errorf("es-distributed-lock: %s %q: %w", what, id, err)
}
