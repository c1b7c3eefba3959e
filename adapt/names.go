package adapt

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Names are locks by name. They implement certmagic's Locker, TryLocker and LockLeaseRenewer,
// for a certmagic.Storage. In this process one caller at a time has a name, from Lock until
// Unlock. All methods may be called concurrently.
type Names struct{ holds }

// NamesOptions configure Names. A nil *NamesOptions and the zero value mean the defaults.
type NamesOptions struct {
	// Prefix is put before each name, because the store may have other resources with the
	// same name. The default is none.
	Prefix string
	// Lock has the options of each lock.
	Lock *holdfast.LockOptions
}

// NewNames returns Names that use the Client.
func NewNames(client *holdfast.Client, o *NamesOptions) *Names {
	if o == nil {
		o = new(NamesOptions)
	}
	return &Names{holds{client: client, prefix: o.Prefix, lock: o.Lock}}
}

// Lock acquires the lock of the name. It waits until ctx ends or the Client is closed. If the
// store does not answer, Lock retries for about one TTL, at most 30 s.
func (n *Names) Lock(ctx context.Context, name string) error {
	_, err := n.acquire(ctx, name, true)
	return err
}

// TryLock acquires the lock of the name if it is free, and reports whether it has. It also
// returns false while a caller in this process waits for the name in Lock, whether the store
// answers or not. An error means that no caller in this process has or wants the name, and
// that the store did not say whether another process has it. TryLock takes at most 5 s.
func (n *Names) TryLock(ctx context.Context, name string) (bool, error) {
	_, err := n.acquire(ctx, name, false)
	if errors.Is(err, holdfast.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock of the name. Like Hold.Unlock it uses only the values of ctx. If
// the lock was lost, Unlock returns the *holdfast.LostError and does not affect the lock of
// another holder. If no caller has the name, it returns ErrNotHeld.
func (n *Names) Unlock(ctx context.Context, name string) error {
	mine, _, err := n.find("unlock", name)
	if err != nil {
		return err
	}
	return n.release(ctx, mine)
}

// RenewLockLease confirms that the lock of the name is held. The Client renews the lock
// anyway, so RenewLockLease does not change its TTL: with a TTL of d, which is up to six
// hours in certmagic, a killed process would block all others for that long. Only with
// LockOptions.NoKeepAlive does it renew the lock, for d.
//
// If the lock was lost, RenewLockLease returns the *holdfast.LostError once. certmagic then
// ends the attempt, and calls RenewLockLease again before the next one. RenewLockLease then
// tries to acquire the lock again, without waiting. So the attempts continue when the store
// can be reached again, but only if no other process makes them.
func (n *Names) RenewLockLease(ctx context.Context, name string, d time.Duration) error {
	l, h, err := n.find("renew", name)
	if err != nil {
		return err
	}
	if lost := context.Cause(h.Context()); lost != nil {
		if n.tell(l, h) {
			return lost
		}
		return n.again(ctx, l, h)
	}
	var ttl time.Duration // 0: unchanged
	if n.lock != nil && n.lock.NoKeepAlive {
		ttl = d
	}
	if err := h.Renew(ctx, ttl); err != nil {
		if errors.Is(err, holdfast.ErrLost) {
			n.tell(l, h)
		}
		return err
	}
	return nil
}

// tell reports whether the loss of the hold is to be reported, which is once.
func (n *Names) tell(l *held, h *holdfast.Hold) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.hold != h || l.told {
		return false
	}
	l.told = true
	return true
}

// again acquires a lock whose hold was lost. It keeps the turn until it is clear who has the
// new hold: the hold would block the next caller with the same lock ID.
func (n *Names) again(ctx context.Context, l *held, lost *holdfast.Hold) error {
	n.mu.Lock()
	if n.named[l.name] != l {
		n.mu.Unlock()
		return n.notHeld("renew", l.name)
	}
	l.users++
	n.mu.Unlock()
	defer n.leave(l)
	h, err := tryLock(ctx, n.client, n.prefix+l.name, n.lock)
	if err != nil {
		return err
	}
	n.mu.Lock()
	taken := n.named[l.name] == l && l.hold == lost
	if taken {
		l.hold, l.granted, l.told = h, time.Now(), false
	}
	n.mu.Unlock()
	if taken {
		return nil
	}
	// The caller has released the name, or another call has acquired the lock.
	return errors.Join(n.notHeld("renew", l.name), h.Unlock(ctx))
}

// Bind returns a context derived from ctx that also ends when the lock of the name does. Call
// the CancelFunc when the work is done. If no caller has the name, the context has ended,
// with the cause ErrNotHeld.
func (n *Names) Bind(ctx context.Context, name string) (context.Context, context.CancelFunc) {
	_, h, err := n.find("bind", name)
	if err != nil {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return ended, func() {}
	}
	return h.Bind(ctx)
}
