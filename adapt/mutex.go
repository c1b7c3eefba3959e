package adapt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
)

// Mutex is a sync.Locker, for code that takes no other lock. Prefer Client.Do, which has a
// ctx and errors. A Mutex may be used by several goroutines: one at a time holds it. Call
// Lock and Unlock in pairs.
type Mutex struct {
	holds
	ctx    context.Context // of the program
	onLoss func(err error)

	lossMu sync.Mutex
	stop   func() bool // ends the watch for a loss of the present lock
}

// MutexOptions configure a Mutex. Nil and the zero value are the defaults.
type MutexOptions struct {
	// OnLoss is called once if the lock ends before Unlock, with the reason: by a goroutine
	// of its own, or by Unlock if nobody noticed it before. The holder still works: OnLoss
	// ends that, if need be by os.Exit. Default: Unlock panics with the reason.
	OnLoss func(err error)
	// Lock are the options of each lock.
	Lock *holdfast.LockOptions
}

// NewMutex returns a Mutex of the resource. ctx ends with the program: see Lock.
func NewMutex(ctx context.Context, client *holdfast.Client, resource string, o *MutexOptions) *Mutex {
	if o == nil {
		o = new(MutexOptions)
	}
	return &Mutex{holds: holds{client: client, prefix: resource, lock: o.Lock}, ctx: ctx, onLoss: o.OnLoss}
}

// Lock acquires the lock. It waits as long as needed, and asks a store that does not
// answer, or is holdfast.ErrUnusable, again, forever. Lock cannot return an error, and must
// not return without the lock: it panics if the Mutex's ctx ends, if the Client is closed,
// and for errors that asking again does not change, such as holdfast.ErrInvalid.
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

// Unlock releases the lock. It panics if the Mutex is not locked, and, unless there is an
// OnLoss, if the lock was lost or ended otherwise since Lock: what was done meanwhile was
// not protected. If the store does not confirm the release, the lock ends by itself.
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

// unwatch ends the watch for a loss, and reports whether it had not seen one.
func (m *Mutex) unwatch() bool {
	m.lossMu.Lock()
	defer m.lossMu.Unlock()
	stop := m.stop
	m.stop = nil
	return stop != nil && stop()
}

// Hold returns the hold of the present lock, with its token and its ctx, or nil if the
// Mutex is not locked. Only the caller that has locked it knows whose hold that is.
func (m *Mutex) Hold() *holdfast.Hold {
	_, h, err := m.find("hold", "")
	if err != nil {
		return nil
	}
	return h
}
