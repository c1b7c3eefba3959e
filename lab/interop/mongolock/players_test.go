package mongolock

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/interop/oldmongolock"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

// ask is an attempt to get a resource. limit is for shared locks; 0 is none.
type ask struct {
	resource, lockID string
	mode             driver.Mode
	limit            int
	ttl              time.Duration
	fair             bool // Holdfast's own Client waits in turn for a while
}

// turn limits how long a fair player waits for its turn.
const turn = 200 * time.Millisecond

// player is a program of one of the three kinds.
type player interface {
	kind() string
	// lock tries once. It returns a nil unlock if the resource is held. The token is 0 if the
	// player has none.
	lock(ctx context.Context, a ask) (unlock func() error, token uint64, err error)
	unlock(ctx context.Context, lockID string) error
	// renew reports whether there was a lock to renew.
	renew(ctx context.Context, lockID string, ttl time.Duration) (bool, error)
	// status counts the locks of a resource that have not expired.
	status(ctx context.Context, resource string) (exclusive, shared int, err error)
	purge(ctx context.Context) error
}

// old is a program with mongo-lock.
type old struct {
	*oldmongolock.Client
	now func() time.Time
}

func (old) kind() string { return "old" }

func (p old) lock(ctx context.Context, a ask) (func() error, uint64, error) {
	var err error
	if a.mode == driver.Exclusive {
		err = p.XLock(ctx, a.resource, a.lockID, a.ttl)
	} else {
		err = p.SLock(ctx, a.resource, a.lockID, a.ttl, most(a.limit))
	}
	if errors.Is(err, oldmongolock.ErrAlreadyLocked) {
		return nil, 0, nil
	}
	return func() error { return p.unlock(ctx, a.lockID) }, 0, err
}

// most returns a limit as mongo-lock expects it.
func most(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}

func (p old) unlock(ctx context.Context, lockID string) error {
	_, err := p.Unlock(ctx, lockID)
	return err
}

func (p old) renew(ctx context.Context, lockID string, ttl time.Duration) (bool, error) {
	err := p.Renew(ctx, lockID, ttl)
	if errors.Is(err, oldmongolock.ErrLockNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (p old) status(ctx context.Context, resource string) (exclusive, shared int, err error) {
	now := p.now()
	locks, err := p.Status(ctx, oldmongolock.Filter{Resource: resource})
	for _, l := range locks {
		switch {
		case !l.ExpiresAt.IsZero() && !l.ExpiresAt.After(now):
		case l.Shared:
			shared++
		default:
			exclusive++
		}
	}
	return exclusive, shared, err
}

func (p old) purge(ctx context.Context) error {
	_, err := p.Purge(ctx)
	return err
}

// dropIn is a program with the drop-in.
type dropIn struct{ *lock.Client }

func (dropIn) kind() string { return "drop-in" }

func (p dropIn) lock(ctx context.Context, a ask) (func() error, uint64, error) {
	details := lock.LockDetails{Owner: "drop-in", TTL: uint(a.ttl / time.Second)}
	var err error
	if a.mode == driver.Exclusive {
		err = p.XLock(ctx, a.resource, a.lockID, details)
	} else {
		err = p.SLock(ctx, a.resource, a.lockID, details, most(a.limit))
	}
	if errors.Is(err, lock.ErrAlreadyLocked) {
		return nil, 0, nil
	}
	return func() error { return p.unlock(ctx, a.lockID) }, 0, err
}

func (p dropIn) unlock(ctx context.Context, lockID string) error {
	_, err := p.Unlock(ctx, lockID)
	return err
}

func (p dropIn) renew(ctx context.Context, lockID string, ttl time.Duration) (bool, error) {
	renewed, err := p.Renew(ctx, lockID, uint(ttl/time.Second))
	if errors.Is(err, lock.ErrLockNotFound) {
		return false, nil
	}
	return len(renewed) > 0, err
}

func (p dropIn) status(ctx context.Context, resource string) (exclusive, shared int, err error) {
	locks, err := p.Status(ctx, lock.Filter{Resource: resource})
	for _, l := range locks {
		switch {
		case l.TTL == 0:
		case l.Type == lock.LOCK_TYPE_SHARED:
			shared++
		default:
			exclusive++
		}
	}
	return exclusive, shared, err
}

func (p dropIn) purge(ctx context.Context) error {
	_, err := lock.NewPurger(p.Client).Purge(ctx)
	return err
}

// native is a program with Holdfast's Client.
type native struct{ *holdfast.Client }

func (native) kind() string { return "native" }

func (p native) lock(ctx context.Context, a ask) (func() error, uint64, error) {
	o := &holdfast.LockOptions{LockID: a.lockID, TTL: a.ttl, Limit: a.limit, NoKeepAlive: true}
	if a.ttl == 0 {
		o.TTL = time.Hour
	}
	try := p.TryLock
	if a.mode == driver.Shared {
		try = p.TryRLock
	}
	if a.fair {
		waits, cancel := context.WithTimeout(ctx, turn)
		defer cancel()
		ctx, try, o.Fair = waits, p.Lock, true
		if a.mode == driver.Shared {
			try = p.RLock
		}
	}
	h, err := try(ctx, a.resource, o)
	if errors.Is(err, holdfast.ErrHeld) || a.fair && errors.Is(err, context.DeadlineExceeded) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return func() error { return h.Unlock(context.WithoutCancel(ctx)) }, h.Token(), nil
}

func (p native) unlock(ctx context.Context, lockID string) error {
	_, err := p.Admin().ReleaseID(ctx, lockID)
	return err
}

func (p native) renew(ctx context.Context, lockID string, ttl time.Duration) (bool, error) {
	renewed, err := p.Admin().RenewID(ctx, lockID, ttl)
	if errors.Is(err, holdfast.ErrLost) {
		return false, nil
	}
	return len(renewed) > 0, err
}

func (p native) status(ctx context.Context, resource string) (exclusive, shared int, err error) {
	for s, err := range p.Admin().Holds(ctx, holdfast.Filter{Resource: resource}) {
		switch {
		case err != nil:
			return 0, 0, err
		case s.Mode == driver.Shared:
			shared++
		default:
			exclusive++
		}
	}
	return exclusive, shared, nil
}

func (p native) purge(ctx context.Context) error {
	_, err := p.Admin().Sweep(ctx)
	return err
}
