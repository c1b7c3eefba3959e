package holdfast

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"
)

// Lock acquires the resource exclusively and waits while it is held. The ctx limits the
// wait but not the hold, which lives until Unlock. A nil o means the defaults.
//
// If ctx ends first, the error wraps ctx.Err(), and also ErrHeld if the store's last answer
// was a refusal. The cause of ctx is only in the text of the error. If the store does not
// answer, Lock retries for about one TTL, at most 30 s, without the time for which the
// process was stopped, and returns the last error.
//
// Lock does not wait for its own caller. It fails at once with a *HeldError that has BySelf
// set if this Client holds the resource by the same LockOptions.LockID, or if ctx is bound
// by Do or Hold.Bind to a live hold of the resource of this Client, in any mode. The same
// applies to RLock, TryLock and TryRLock.
//
// Callers that take several locks in different orders can wait for each other until their
// contexts end. Take locks in the same order everywhere, such as by name.
func (c *Client) Lock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Exclusive, o, true)
}

// TryLock is like Lock but does not wait. It returns a *HeldError if the resource is held,
// or if fair waiters of any Client are served first (HeldError.Ahead). It can overtake other
// waiters, also waiters of this Client.
func (c *Client) TryLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Exclusive, o, false)
}

// RLock is like Lock but acquires the resource in shared mode. Up to LockOptions.Limit
// shared holds exist at once.
//
// RLock waits behind a waiting Lock of this Client and behind fair waiters of all Clients,
// even if it could be granted at once: otherwise readers that come and go could keep a
// writer waiting forever. As with sync.RWMutex, a caller must not take a second shared
// hold of a resource: it could wait for a writer that waits for the first hold.
func (c *Client) RLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Shared, o, true)
}

// TryRLock is like TryLock but acquires the resource in shared mode, as RLock does. Because
// it overtakes waiters, frequent calls can keep a writer waiting.
func (c *Client) TryRLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Shared, o, false)
}

func (c *Client) lock(ctx context.Context, resource string, mode Mode, o *LockOptions, wait bool) (*Hold, error) {
	a, err := c.newAcquirer(resource, mode, o)
	var began time.Duration
	if c.traced {
		a.span = &span{ctx: context.WithoutCancel(ctx)}
		began = c.clock()
	}
	if err == nil {
		err = c.reentry(ctx, resource)
	}
	if err == nil {
		a.asked = ctx.Err() == nil && !c.initDone.Load() // it begins the store's Init, or waits for it
		err = c.start(ctx)
	}
	if err != nil {
		return nil, a.failed(began, wrap("lock", resource, err))
	}
	defer c.scope.Leave()
	var h *Hold
	if wait {
		h, err = a.waitWarned(ctx)
	} else {
		h, err = a.try(ctx)
	}
	if err != nil {
		return nil, a.failed(began, err)
	}
	if c.opts.Logger != nil {
		c.log(ctx, slog.LevelDebug, "holdfast: lock acquired",
			"resource", resource, "lockID", h.LockID(), "token", h.Token(), "mode", mode)
	}
	if a.endless {
		if err := h.makeEndless(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// makeEndless renews the first lease to Forever. If the store does not answer, the
// keep-alive retries; without a keep-alive, makeEndless releases the lock.
func (h *Hold) makeEndless(ctx context.Context) error {
	err := h.Renew(ctx, Forever)
	if err == nil || h.lease.Keep && !errors.Is(err, ErrLost) {
		return nil
	}
	if unlockErr := h.Unlock(ctx); !errors.Is(unlockErr, ErrLost) {
		err = joined(err, unlockErr)
	}
	return err
}

// Do acquires the resource as Lock does, calls fn, and releases the lock. The ctx of fn is
// derived from the ctx of Do and also ends when the lock is lost. It is bound to the hold: a
// Lock of the same resource with it fails at once with ErrHeld. A goroutine that outlives
// fn must use the ctx of Do instead.
//
// Do returns the error of fn, joined with the error of the lock if the lock ended before fn
// returned or could not be released. A nil error means that fn ran under the lock from
// beginning to end, as far as the Client knows: it learns of a forced release by another
// program only when it renews the hold. If fn panics, Do releases the lock and the panic
// continues.
func (c *Client) Do(ctx context.Context, resource string, o *LockOptions, fn func(ctx context.Context) error) error {
	h, err := c.Lock(ctx, resource, o)
	if err != nil {
		return err
	}
	return c.run(ctx, h, fn)
}

// TryDo is like Do but acquires the resource as TryLock does: if it is held, TryDo returns a
// *HeldError and does not call fn.
func (c *Client) TryDo(ctx context.Context, resource string, o *LockOptions, fn func(ctx context.Context) error) error {
	h, err := c.TryLock(ctx, resource, o)
	if err != nil {
		return err
	}
	return c.run(ctx, h, fn)
}

// run calls fn under the hold, releases the hold, and joins their errors for Do.
func (c *Client) run(ctx context.Context, h *Hold, fn func(ctx context.Context) error) (err error) {
	if !c.scope.Enter() {
		return wrap("lock", h.Resource(), ErrClosed) // Close has released it, or will
	}
	defer c.scope.Leave()
	if !h.lease.EnterDo() {
		return wrap("lock", h.Resource(), ErrClosed)
	}
	bound, cancel := h.Bind(ctx)
	defer func() {
		cancel()
		early := context.Cause(h.Context()) // nil if the lock outlived fn
		unlockErr := h.Unlock(ctx)
		h.lease.LeaveDo()
		if unlockErr == nil {
			unlockErr = early // ReleaseID or Close released it
		}
		err = joined(err, unlockErr)
	}()
	return fn(bound)
}

// binding is the value that Do and Bind put into a ctx: the hold that it is bound to, and
// the ctx's previous binding, maybe to a hold of another Client.
type binding struct {
	hold  *Hold
	outer *binding
}

type bindingKey struct{}

func bindingOf(ctx context.Context) *binding {
	u, _ := ctx.Value(bindingKey{}).(*binding)
	return u
}

// HoldOf returns the hold that Do or Hold.Bind bound ctx to, or nil. If there are several,
// it returns the last one.
func HoldOf(ctx context.Context) *Hold {
	for h := range HoldsOf(ctx) {
		return h
	}
	return nil
}

// HoldsOf returns an iterator over the holds that Do or Hold.Bind bound ctx to, the last one
// first, including holds that have ended. A hold that ctx was bound to twice appears twice.
func HoldsOf(ctx context.Context) iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		for u := bindingOf(ctx); u != nil; u = u.outer {
			if !yield(u.hold) {
				return
			}
		}
	}
}

// reentry refuses a lock of a resource if ctx is bound to a live hold of it by this Client:
// the lock would wait for its own caller.
func (c *Client) reentry(ctx context.Context, resource string) error {
	for h := range HoldsOf(ctx) {
		if h.client == c && h.Resource() == resource && h.Left() > 0 {
			return heldBySelf(&h.lease)
		}
	}
	return nil
}

// longWait is how long a Lock whose ctx is bound to other holds waits before a warning names
// these holds: it may be part of a deadlock.
const longWait = 30 * time.Second

// waitWarned is wait, with a warning after longWait if ctx is bound to holds of this Client.
func (a *acquirer) waitWarned(ctx context.Context) (*Hold, error) {
	if a.c.opts.Logger != nil && bindingOf(ctx) != nil {
		defer time.AfterFunc(longWait, func() { a.warnOfHolds(ctx) }).Stop()
	}
	return a.wait(ctx)
}

// warnOfHolds logs which live holds of this Client the caller keeps while it waits.
func (a *acquirer) warnOfHolds(ctx context.Context) {
	var held []string
	for h := range HoldsOf(ctx) {
		if h.client == a.c && h.Left() > 0 && !slices.Contains(held, h.Resource()) {
			held = append(held, h.Resource())
		}
	}
	if len(held) > 0 {
		a.c.warn("holdfast: a caller waits long while it holds other locks", "resource", a.q.Resource,
			"waited", longWait, "holds", held)
	}
}
