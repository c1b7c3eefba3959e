package holdfast

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"
)

// Lock acquires the resource exclusively. If the resource is held, Lock waits until ctx
// ends. The error is then ctx.Err(), with the cause of ctx in its text alone, and also
// ErrHeld if the store's last answer was a refusal. Lock does not wait for a hold of the
// same lock ID that this Client has (HeldError.BySelf). If the store does not answer, Lock
// retries for about one TTL, at most 30 s; the time for which the process was stopped does
// not count.
//
// A Lock whose ctx is bound to a live hold of the same resource (by Do or Hold.Bind, of the
// same Client) would wait for its own caller: like RLock, TryLock and TryRLock, it fails at
// once with ErrHeld and HeldError.BySelf, whatever the modes. Callers that take several
// locks in different orders can wait for each other until their ctxs end: take locks in one
// order everywhere, such as that of their names.
//
// ctx bounds the wait, not the lock, which lives until Unlock.
func (c *Client) Lock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Exclusive, o, true)
}

// TryLock is like Lock but does not wait: it fails with ErrHeld if the resource is
// held, or if fair waiters of any Client come first (HeldError.Ahead). It does not queue
// behind waiters of this Client.
func (c *Client) TryLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Exclusive, o, false)
}

// RLock is like Lock in shared mode, for up to LockOptions.Limit holds. It queues behind
// a waiting Lock of this Client, even if it could be granted at once: otherwise readers
// that come and go could keep a writer waiting forever. It waits behind fair waiters of all
// Clients, too. So a caller must not take a shared hold of a resource twice, as with
// sync.RWMutex: the second could wait for a writer that waits for the first.
func (c *Client) RLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Shared, o, true)
}

// TryRLock is like TryLock in shared mode, for up to LockOptions.Limit holds. It does
// not queue, so many of them can keep a writer waiting.
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

// Do runs fn with the resource locked exclusively, and releases it. fn's ctx is
// derived from the given one and ends also when the lock is lost. A Lock of the same
// resource with fn's ctx fails at once with ErrHeld (HeldError.BySelf). A goroutine that fn
// does not wait for uses the ctx that Do was given.
//
// Do returns fn's error, joined with the lock's error if the lock ended before fn did
// or could not be released. nil means that all of fn ran under the lock, as far as the
// Client knows: it learns of a forced release by another program only when it renews.
// If fn panics, Do releases the lock, and the panic goes on.
func (c *Client) Do(ctx context.Context, resource string, o *LockOptions, fn func(ctx context.Context) error) error {
	h, err := c.Lock(ctx, resource, o)
	if err != nil {
		return err
	}
	return c.run(ctx, h, fn)
}

// TryDo is like Do but does not wait: if the resource is held, it fails with ErrHeld, as
// TryLock does, and does not run fn.
func (c *Client) TryDo(ctx context.Context, resource string, o *LockOptions, fn func(ctx context.Context) error) error {
	h, err := c.TryLock(ctx, resource, o)
	if err != nil {
		return err
	}
	return c.run(ctx, h, fn)
}

// run runs fn under the hold, which it releases, and joins their errors for Do.
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
// the binding that it had before, maybe of another Client.
type binding struct {
	hold  *Hold
	outer *binding
}

type bindingKey struct{}

func bindingOf(ctx context.Context) *binding {
	u, _ := ctx.Value(bindingKey{}).(*binding)
	return u
}

// HoldOf returns the hold that ctx was bound to last by Do or Hold.Bind, or nil.
func HoldOf(ctx context.Context) *Hold {
	for h := range HoldsOf(ctx) {
		return h
	}
	return nil
}

// HoldsOf yields the holds that ctx is bound to by Do or Hold.Bind, the last one first,
// also those that have ended. One that ctx was bound to twice comes twice.
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

// longWait is how long a Lock under other holds waits before a warning names these: whoever
// has them may wait for them, maybe for ever.
const longWait = 30 * time.Second

// waitWarned is wait, with a warning after longWait if ctx is bound to holds of this Client.
func (a *acquirer) waitWarned(ctx context.Context) (*Hold, error) {
	if a.c.opts.Logger != nil && bindingOf(ctx) != nil {
		defer time.AfterFunc(longWait, func() { a.warnOfHolds(ctx) }).Stop()
	}
	return a.wait(ctx)
}

// warnOfHolds says which live holds of this Client the caller keeps while it waits.
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
