package eslock

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	lock "github.com/holdfast-go/holdfast/eslock/compat/es-distributed-lock"
	"github.com/holdfast-go/holdfast/lab/interop/oldeslock"
)

// ask is an attempt to get a resource.
type ask struct {
	resource, owner string
	mode            driver.Mode // Shared only for players that support it
	ttl             time.Duration
	keep            context.Context // keeps the lock alive until it ends; nil: no keep-alive
	fair            bool            // Holdfast's own Client waits in turn for a while
}

// turn limits how long a fair player waits for its turn.
const turn = 200 * time.Millisecond

// before is how long before its end a lock is to be extended.
func (a ask) before() time.Duration { return a.ttl * 2 / 3 }

// player is a program of one of the three kinds.
type player interface {
	kind() string
	// lock tries once. It returns a nil grip if the resource is held.
	lock(ctx context.Context, a ask) (grip, error)
}

// grip is the lock of a player.
type grip interface {
	token() uint64 // 0 if the player has none
	// holds reports whether the player still relies on the lock. It does not wait.
	holds() bool
	extend(ctx context.Context, ttl time.Duration) error
	// release reports whether there was a hold to release.
	release(ctx context.Context) (bool, error)
}

// old is a program with es-distributed-lock, whose clock is the node's.
type old struct {
	node  eslock.Performer
	index string
}

func (old) kind() string { return "old" }

func (p old) lock(ctx context.Context, a ask) (grip, error) {
	l := oldeslock.New(p.node, p.index, a.resource, a.owner, time.Now)
	err := l.Acquire(ctx, a.ttl)
	if errors.Is(err, oldeslock.ErrHeld) {
		return nil, nil
	}
	if err == nil && a.keep != nil {
		err = l.KeepAlive(a.keep, a.before())
	}
	return oldGrip{l}, err
}

type oldGrip struct{ *oldeslock.Lock }

func (oldGrip) token() uint64                                         { return 0 }
func (g oldGrip) holds() bool                                         { return g.Holds() }
func (g oldGrip) extend(ctx context.Context, ttl time.Duration) error { return g.Acquire(ctx, ttl) }
func (g oldGrip) release(ctx context.Context) (bool, error)           { return g.Release(ctx) }

// dropIn is a program with the drop-in.
type dropIn struct{ node eslock.Performer }

func (dropIn) kind() string { return "drop-in" }

func (p dropIn) lock(ctx context.Context, a ask) (grip, error) {
	l := lock.NewLock(p.node, a.resource).WithOwner(a.owner)
	err := l.Acquire(ctx, a.ttl)
	switch {
	case err != nil && err.Error() == "lock held by other client":
		return nil, nil
	case errors.Is(err, holdfast.ErrTTLTooShort), errors.Is(err, context.DeadlineExceeded) && a.ttl < long && ctx.Err() == nil:
		return nil, nil // the machine was suspended
	case err == nil && a.keep != nil:
		err = l.KeepAlive(a.keep, a.before())
	}
	return dropInGrip{l}, err
}

type dropInGrip struct{ *lock.Lock }

func (dropInGrip) token() uint64                                         { return 0 }
func (g dropInGrip) holds() bool                                         { return g.IsAcquired() }
func (g dropInGrip) extend(ctx context.Context, ttl time.Duration) error { return g.Acquire(ctx, ttl) }

func (g dropInGrip) release(context.Context) (bool, error) {
	err := g.MustRelease()
	if err != nil && errors.Is(err, driver.ErrInvalid) {
		return false, err
	}
	// Its errors mean that there was no lock, or that the network failed.
	return err == nil, g.Release()
}

// native is a program with Holdfast's Client.
type native struct{ *holdfast.Client }

func (native) kind() string { return "native" }

func (p native) lock(ctx context.Context, a ask) (grip, error) {
	try := p.TryLock
	if a.mode == driver.Shared {
		try = p.TryRLock
	}
	if a.fair {
		waits, cancel := context.WithTimeout(ctx, turn)
		defer cancel()
		ctx, try = waits, p.Lock
		if a.mode == driver.Shared {
			try = p.RLock
		}
	}
	h, err := try(ctx, a.resource, &holdfast.LockOptions{LockID: a.owner, TTL: a.ttl, NoKeepAlive: a.keep == nil, Fair: a.fair})
	if errors.Is(err, holdfast.ErrHeld) || errors.Is(err, holdfast.ErrTTLTooShort) || a.fair && errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return nativeGrip{h}, nil
}

type nativeGrip struct{ *holdfast.Hold }

func (g nativeGrip) token() uint64                                       { return g.Token() }
func (g nativeGrip) holds() bool                                         { return g.Left() > 0 }
func (g nativeGrip) extend(ctx context.Context, ttl time.Duration) error { return g.Renew(ctx, ttl) }

func (g nativeGrip) release(ctx context.Context) (bool, error) {
	before := g.Context().Err() != nil
	err := g.Unlock(ctx)
	if errors.Is(err, holdfast.ErrLost) {
		return false, nil
	}
	return err == nil && !before, err
}
