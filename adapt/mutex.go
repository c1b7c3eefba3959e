package adapt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// Mutex is a sync.Locker, for code that accepts nothing else. Prefer Client.Do, which has a
// ctx and errors. Several goroutines may use a Mutex; one at a time holds it. Call Lock and
// Unlock in pairs.
type Mutex struct {
	holds
	ctx    context.Context // ends with the program
	onLoss func(err error)

	lossMu sync.Mutex
	stop   func() bool // ends the watch for a loss of the present lock
}

// MutexOptions configure a Mutex. A nil *MutexOptions and the zero value mean the defaults.
type MutexOptions struct {
	// OnLoss is called once, with the reason, if the lock ends before Unlock: by a goroutine
	// of its own, or by Unlock if the loss was not noticed before. The holder is still
	// working: OnLoss must stop it, if need be with os.Exit. By default Unlock panics with
	// the reason.
	OnLoss func(err error)
	// Lock has the options of each lock.
	Lock *holdfast.LockOptions
}

// NewMutex returns a Mutex that locks the resource. ctx is for the end of the program: see
// Lock.
func NewMutex(ctx context.Context, client *holdfast.Client, resource string, o *MutexOptions) *Mutex {
	if o == nil {
		o = new(MutexOptions)
	}
	return &Mutex{holds: holds{client: client, prefix: resource, lock: o.Lock}, ctx: ctx, onLoss: o.OnLoss}
}

// Lock acquires the lock. It waits as long as needed, and asks a store that does not answer,
// or returns holdfast.ErrUnusable, again and again without an end. Lock cannot return an
// error, and must not return without the lock: it panics if the ctx of the Mutex ends, if the
// Client is closed, and after errors for which a retry is useless, such as
// holdfast.ErrInvalid.
func (m *Mutex) Lock() {
	pauses := patient()
	mine, err := m.acquire(m.ctx, "", true)
	for ; err != nil; mine, err = m.acquire(m.ctx, "", true) {
		if !transient(m.ctx, err) {
			panic(err)
		}
		if ended := wait(m.ctx, &pauses, m.client); ended != nil {
			panic(fmt.Errorf("holdfast: lock %q: %w; the last attempt: %w", m.prefix, ended, err))
		}
	}
	if m.onLoss == nil {
		return
	}
	ended := mine.hold.Context()
	stop := context.AfterFunc(ended, func() { m.onLoss(context.Cause(ended)) })
	m.lossMu.Lock()
	m.stop = stop
	m.lossMu.Unlock()
}

// Unlock releases the lock. It panics if the Mutex is not locked. Without OnLoss it also
// panics if the lock was lost, or ended otherwise, since Lock: the work since then was not
// protected. If the store does not confirm the release, the lock expires.
func (m *Mutex) Unlock() {
	mine, h, err := m.find("unlock", "")
	if err != nil {
		panic(err)
	}
	unwatched := m.unwatch()
	loss := context.Cause(h.Context())
	switch err := m.release(m.ctx, mine); {
	case errors.Is(err, ErrNotHeld): // another goroutine has unlocked it
		panic(err)
	case errors.Is(err, holdfast.ErrLost):
		loss = err
	}
	switch {
	case loss == nil:
	case m.onLoss == nil:
		panic(loss)
	case unwatched:
		m.onLoss(loss)
	}
}

// unwatch ends the watch for a loss, and reports whether it had seen none.
func (m *Mutex) unwatch() bool {
	m.lossMu.Lock()
	defer m.lossMu.Unlock()
	stop := m.stop
	m.stop = nil
	return stop != nil && stop()
}

// Hold returns the hold of the present lock, with its token and its context, or nil if the
// Mutex is not locked. Only the caller that has locked the Mutex can know whose hold that is.
func (m *Mutex) Hold() *holdfast.Hold {
	_, h, err := m.find("hold", "")
	if err != nil {
		return nil
	}
	return h
}
