package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Lock acquires the resource exclusively. If the resource is held, Lock waits until ctx
// ends. The error is then ctx.Err(), and also ErrHeld if the store's last answer was a
// refusal. Lock does not wait for a hold of the same lock ID (HeldError.BySelf). If the
// store does not answer, Lock retries for about one TTL, at most 30 s.
//
// ctx bounds the wait, not the lock, which lives until Unlock.
func (c *Client) Lock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Exclusive, o, true)
}

// TryLock is like Lock but does not wait: it fails with ErrHeld if the resource is
// held. It does not queue behind waiters of this Client.
func (c *Client) TryLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Exclusive, o, false)
}

// RLock is like Lock in shared mode, for up to LockOptions.Limit holds. It queues behind
// a waiting Lock of this Client, even if it could be granted at once: otherwise readers
// that come and go could keep a writer waiting forever. So do not take a shared hold
// twice: the second one would wait for that writer, and the writer for the first.
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
	if err != nil {
		return nil, wrap("lock", resource, err)
	}
	if a.shares, err = c.reentry(ctx, a.q); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, wrap("lock", resource, err)
	}
	defer c.work.Done()
	var began time.Duration
	if c.trace.Waited != nil {
		began = c.clock()
	}
	var h *Hold
	if wait {
		h, err = a.wait(ctx)
	} else {
		h, err = a.try(ctx)
	}
	if c.trace.Waited != nil && wait && a.waited() {
		info := WaitInfo{Resource: resource, LockID: a.q.LockID, Mode: mode, Waited: c.clock() - began, Err: err}
		c.notifier.notify(func() { c.trace.Waited(info) })
	}
	if err != nil {
		return nil, err
	}
	if c.opts.Logger != nil {
		c.log(ctx, slog.LevelDebug, "holdfast: lock acquired",
			"resource", resource, "lockID", h.ref.LockID, "token", h.ref.Token, "mode", mode)
	}
	if c.trace.Acquired != nil {
		c.notifier.notify(func() { c.trace.Acquired(h) })
	}
	if a.ttl == Forever {
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
	if err == nil || h.keep && !errors.Is(err, ErrLost) {
		return nil
	}
	if unlockErr := h.Unlock(ctx); !errors.Is(unlockErr, ErrLost) {
		err = errors.Join(err, unlockErr)
	}
	return err
}

// Do runs fn with the resource locked exclusively, and releases it. fn's ctx is
// derived from the given one and ends also when the lock is lost. A Lock of the same
// resource with fn's ctx fails at once with ErrHeld (HeldError.BySelf).
//
// Do returns fn's error, joined with the lock's error if the lock ended before fn did
// or could not be released. nil means that all of fn ran under the lock, as far as the
// Client knows: it learns of a forced release by another program only when it renews.
// If fn panics, Do releases the lock, and the panic goes on.
func (c *Client) Do(ctx context.Context, resource string, o *LockOptions, fn func(ctx context.Context) error) (err error) {
	h, err := c.Lock(ctx, resource, o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return wrap("lock", resource, ErrClosed) // Close has released it, or will
	}
	c.work.Add(1)
	h.inDo = true
	c.mu.Unlock()
	bound, cancel := h.Bind(ctx)
	defer func() {
		defer c.work.Done()
		cancel()
		early := context.Cause(h.Context()) // nil if the lock outlived fn
		unlockErr := h.Unlock(ctx)
		c.mu.Lock()
		h.inDo = false
		c.mu.Unlock()
		if unlockErr == nil {
			unlockErr = early // ReleaseID or Close released it
		}
		switch {
		case unlockErr == nil:
		case err == nil:
			err = unlockErr
		default:
			err = errors.Join(err, unlockErr)
		}
	}()
	return fn(bound)
}

// binding is the value that Do and Bind put into a ctx: the hold that it is bound to, and
// the binding that it had before. Each Client has its own key.
type binding struct {
	hold  *Hold
	outer *binding
}

type bindingKey struct{ client *Client }

func (c *Client) binding(ctx context.Context) *binding {
	u, _ := ctx.Value(bindingKey{c}).(*binding)
	return u
}

// reentry looks for holds of the resource that ctx is bound to. It refuses a request
// that cannot be granted before these holds end. A further shared hold can be
// granted: shares is then true.
func (c *Client) reentry(ctx context.Context, q driver.AcquireRequest) (shares bool, err error) {
	var held []*Hold
	refused := q.Mode == Exclusive
	for u := c.binding(ctx); u != nil; u = u.outer {
		// Bound to the same hold twice, it has one nevertheless.
		if h := u.hold; h.ref.Resource == q.Resource && h.Left() > 0 && !slices.Contains(held, h) {
			held = append(held, h)
			refused = refused || h.mode == Exclusive
		}
	}
	if len(held) == 0 {
		return false, nil
	}
	if !refused && (q.Limit == 0 || len(held) < q.Limit) {
		return true, nil
	}
	e := &reentryError{HeldError{Resource: q.Resource, RetryAfter: driver.Unknown, BySelf: true}}
	for _, h := range held {
		e.held.Holders = append(e.held.Holders, Status{
			Resource: h.ref.Resource, LockID: h.ref.LockID, HoldID: h.ref.HoldID, Mode: h.mode, Token: h.ref.Token,
			Left: h.Left(),
		})
	}
	return false, e
}

// reentryError is a *HeldError that explains where the caller's own hold comes from.
type reentryError struct{ held HeldError }

func (e *reentryError) Error() string {
	return fmt.Sprintf("holdfast: %q is held: you hold it yourself, by the ctx that Do or Bind gave", e.held.Resource)
}

func (e *reentryError) Unwrap() error { return &e.held }
