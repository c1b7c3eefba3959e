// Package faults tests a store, and Clients on it, over real connections that fail. The tests
// of each store with a server call [Run]. They check what drivertest cannot: that the store's
// client library obeys contexts, leaves nothing behind, and never reports a lost answer as a
// definite one.
package faults

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// Place is a store for one test. Other tests do not use its data.
type Place struct {
	// Network is between the stores that Far opens and their server.
	Network *proxy.Network
	// Near and Far open another handle on the data, with its own connections. Near bypasses the
	// network. The test closes the handle.
	Near, Far func(t *testing.T) driver.Store
}

// subtest is a property to test. If it belongs to a scenario, its name begins with the
// scenario's number; docs/dev/scenarios.md lists them.
type subtest struct {
	name string
	run  func(b *bench)
}

// Run tests the store, each subtest in a Place of its own. The subtests run in parallel.
func Run(t *testing.T, open func(t *testing.T) *Place) {
	for _, topic := range [][]subtest{connections, grants, holders, waiters} {
		for _, s := range topic {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(newBench(t, open))
			})
		}
	}
}

// bench is the place of one subtest.
type bench struct {
	*testing.T
	*Place
	near  driver.Store
	place func(t *testing.T) *Place
}

func newBench(t *testing.T, place func(t *testing.T) *Place) *bench {
	b := &bench{T: t, Place: place(t), place: place}
	b.near = b.open(b.Near)
	return b
}

// parallel runs a part of a subtest in parallel, in a place of its own.
func (b *bench) parallel(name string, test func(b *bench)) {
	b.Run(name, func(t *testing.T) {
		t.Parallel()
		test(newBench(t, b.place))
	})
}

// open opens a store that is closed with the test.
func (b *bench) open(open func(t *testing.T) driver.Store) driver.Store {
	b.Helper()
	s := open(b.T)
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Errorf("closing the store: %v", err)
		}
	})
	if err := initialize(b.Context(), s); err != nil {
		b.Fatal(err)
	}
	return s
}

// client returns a Client of the store that has already been used once.
func (b *bench) client(s driver.Store, o *holdfast.Options) *holdfast.Client {
	b.Helper()
	c := holdfast.New(s, o)
	b.Cleanup(func() { _ = c.Close() }) // its holds may be lost by now
	b.unlock(b.lock(c, "first "+driver.NewHoldID().String(), nil))
	return c
}

func (b *bench) nearClient() *holdfast.Client { b.Helper(); return b.client(b.open(b.Near), nil) }
func (b *bench) farClient() *holdfast.Client  { b.Helper(); return b.client(b.open(b.Far), nil) }

func (b *bench) lock(c *holdfast.Client, resource string, o *holdfast.LockOptions) *holdfast.Hold {
	b.Helper()
	h, err := c.Lock(b.Context(), resource, o)
	if err != nil {
		b.Fatalf("Lock(%q): %v", resource, err)
	}
	return h
}

func (b *bench) unlock(h *holdfast.Hold) {
	b.Helper()
	if err := h.Unlock(b.Context()); err != nil {
		b.Fatalf("Unlock of %q: %v", h.Resource(), err)
	}
}

// granted is the result of a call that acquires a lock.
type granted struct {
	hold *holdfast.Hold
	err  error
	at   time.Time
}

// acquireInBackground runs the call in a goroutine of its own.
func acquireInBackground(lock func() (*holdfast.Hold, error)) <-chan granted {
	ch := make(chan granted, 1)
	go func() {
		h, err := lock()
		ch <- granted{hold: h, err: err, at: time.Now()}
	}()
	return ch
}

// wait returns the next value, or ends the test.
func wait[T any](b *bench, what string, ch <-chan T) (v T) {
	b.Helper()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case v = <-ch:
	case <-t.C:
		b.Fatalf("waited %v in vain until %s", patience, what)
	}
	return v
}

// patience limits how long a test waits for an event.
const patience = time.Minute

// eventually polls until is returns true, or ends the test.
func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-deadline.C:
			b.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

// holder returns the hold that the server has for a resource.
func (b *bench) holder(resource string) (found driver.Status) {
	b.Helper()
	for st, err := range b.near.List(b.Context(), driver.Filter{Resource: resource}) {
		if err != nil {
			b.Fatal(err)
		}
		found = st
	}
	return found
}

func (b *bench) free(resource string) bool { b.Helper(); return b.holder(resource).HoldID.IsZero() }

// requireHold fails the test unless the server has the hold.
func (b *bench) requireHold(h *holdfast.Hold) {
	b.Helper()
	if st := b.holder(h.Resource()); st.HoldID != h.ID() || st.Token != h.Token() {
		b.Errorf("the server has %+v, want hold %v with token %d", st, h.ID(), h.Token())
	}
}

// MustBeUnknown fails the test unless err leaves the outcome open.
func MustBeUnknown(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("there was no error, want that of an unknown outcome")
	}
	for _, definite := range []error{
		driver.ErrHeld, driver.ErrLost, driver.ErrInvalid, driver.ErrUnusable, driver.ErrDamaged, driver.ErrUnsupported,
	} {
		if errors.Is(err, definite) {
			t.Errorf("%v, want an unknown outcome", err)
		}
	}
}
