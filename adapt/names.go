package adapt

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Names are locks by name. They are certmagic's Locker, TryLocker and LockLeaseRenewer,
// for a certmagic.Storage. One caller at a time in this process has a name, from Lock
// until Unlock. All methods may be called concurrently.
type Names struct{ holds }

// NamesOptions configure Names. Nil and the zero value are the defaults.
type NamesOptions struct {
	// Prefix goes before each name: the rest of the store may have resources of the same
	// name. Default: none.
	Prefix string
	// Lock are the options of each lock.
	Lock *holdfast.LockOptions
}

// NewNames returns Names whose locks the Client holds.
func NewNames(client *holdfast.Client, o *NamesOptions) *Names {
	if o == nil {
		o = new(NamesOptions)
	}
	return &Names{holds{client: client, prefix: o.Prefix, lock: o.Lock}}
}

// Lock acquires the lock of the name. It waits until ctx ends, or the Client is closed. If
// the store does not answer, Lock retries for about one TTL, at most 30 s.
func (n *Names) Lock(ctx context.Context, name string) error {
	_, err := n.acquire(ctx, name, true)
	return err
}

// TryLock acquires the lock of the name if it is free, and reports whether it did. It
// returns false also while a caller in this process waits for the name in Lock, whether the
// store answers or not. An error means that nobody in this process has or wants the name,
// and that the store did not say whether another process has it. It takes 5 s at most.
func (n *Names) TryLock(ctx context.Context, name string) (bool, error) {
	_, err := n.acquire(ctx, name, false)
	if errors.Is(err, holdfast.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock of the name. Like Hold.Unlock it uses only the values of ctx.
// If the lock was lost, Unlock returns the *holdfast.LostError and touches no lock of
// another holder. If no caller has the name, it returns ErrNotHeld.
func (n *Names) Unlock(ctx context.Context, name string) error {
	mine, _, err := n.find("unlock", name)
	if err != nil {
		return err
	}
	return n.release(ctx, mine)
}

// RenewLockLease confirms that the lock of the name is held. The Client renews it all the
// time, so RenewLockLease leaves its TTL as it is, except with LockOptions.NoKeepAlive: it
// then makes the lock live for d. With a TTL of d, which is up to six hours in certmagic, a
// process that is killed would block all others for that long.
//
// If the lock was lost, RenewLockLease returns the *holdfast.LostError once: certmagic then
// ends that attempt. certmagic calls it again before the next attempt, and RenewLockLease
// then tries to acquire the lock again, without waiting. So the attempts go on when the
// store can be reached again, and only if no other process makes them.
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
	var ttl time.Duration // as it is
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

// tell reports whether the loss of the hold is to be reported: once.
func (n *Names) tell(l *held, h *holdfast.Hold) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.hold != h || l.told {
		return false
	}
	l.told = true
	return true
}

// again acquires a lock whose hold was lost. The turn lasts until it is clear whose hold that
// is: it would keep the next caller with the same lock ID from the lock.
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
	// Meanwhile the caller has released it, or another call has acquired it.
	return errors.Join(n.notHeld("renew", l.name), h.Unlock(ctx))
}

// Bind returns a copy of ctx that ends also when the lock of the name does. Call the
// CancelFunc when the work is done. If no caller has the name, the copy has ended, with
// cause ErrNotHeld.
func (n *Names) Bind(ctx context.Context, name string) (context.Context, context.CancelFunc) {
	_, h, err := n.find("bind", name)
	if err != nil {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(err)
		return ended, func() {}
	}
	return h.Bind(ctx)
}
