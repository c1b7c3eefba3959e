package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Lock acquires the resource exclusively. If it is held it waits until ctx ends;
// the error is then ctx.Err(), and ErrHeld as well if a refusal was the last that
// was heard. It does not wait for the same lock ID (HeldError.BySelf). A store that
// gives no answer is asked again for about one TTL, at most 30 s.
//
// The ctx bounds the wait, not the lock: that lives until Unlock.
func (c *Client) Lock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Exclusive, o, true)
}

// TryLock is Lock that does not wait: ErrHeld tells that the resource is held.
// It does not queue behind others of this Client who wait.
func (c *Client) TryLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Exclusive, o, false)
}

// RLock is Lock in shared mode, up to LockOptions.Limit holds. It queues behind a
// Lock of this Client that waits, even where it could be granted at once, so that
// readers who come and go do not keep a writer of the same Client waiting for ever.
// So do not take a shared hold twice: the second one would wait for that writer,
// and the writer for the first.
func (c *Client) RLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Shared, o, true)
}

// TryRLock is TryLock in shared mode, up to LockOptions.Limit holds. As it passes
// those who wait, many of them can keep a writer waiting.
func (c *Client) TryRLock(ctx context.Context, resource string, o *LockOptions) (*Hold, error) {
	return c.lock(ctx, resource, Shared, o, false)
}

func (c *Client) lock(ctx context.Context, resource string, mode Mode, o *LockOptions, wait bool) (*Hold, error) {
	a, err := c.newAcquirer(resource, mode, o)
	if err != nil {
		return nil, wrap("lock", resource, err)
	}
	shares, err := c.reentry(ctx, a.q)
	if err != nil {
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
	if !wait || shares {
		h, err = a.try(ctx)
	}
	if wait && (!shares || errors.Is(err, ErrHeld)) {
		// Whoever shares the resource already has tried first: who waits for it in
		// line may be waiting for the very hold that this one is taken under.
		h, err = a.wait(ctx)
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

// makeEndless makes a first lease last forever. Without an answer the keep-alive goes
// on trying; without a keep-alive the lock is given back.
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
// the given one, ending also when the lock is lost. With it, the same resource
// cannot be locked again: that is ErrHeld (HeldError.BySelf) at once.
//
// Do returns fn's error, joined with that of the lock if it ended before fn did
// or could not be released: nil means that all of fn ran under the lock. If fn
// panics the lock is released first.
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
			unlockErr = early // given up by somebody else: ReleaseID, Close
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

// binding is what Do and Bind put into a ctx: the hold that the work with that ctx is
// done under, and what the ctx was under before. Each Client has a key of its own.
type binding struct {
	hold  *Hold
	outer *binding
}

type bindingKey struct{ client *Client }

func (c *Client) binding(ctx context.Context) *binding {
	u, _ := ctx.Value(bindingKey{c}).(*binding)
	return u
}

// reentry looks whether work under a hold of the resource asks for it again. What
// could not be granted before that work has ended is refused. A further shared
// hold can: shares is then true.
func (c *Client) reentry(ctx context.Context, q driver.AcquireRequest) (shares bool, err error) {
	var held []*Hold
	refused := q.Mode == Exclusive
	for u := c.binding(ctx); u != nil; u = u.outer {
		if h := u.hold; h.ref.Resource == q.Resource && h.Left() > 0 {
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

// reentryError is a *HeldError that says in what way one holds the resource oneself.
type reentryError struct{ held HeldError }

func (e *reentryError) Error() string {
	return fmt.Sprintf("holdfast: %q is held: you hold it yourself, by the ctx that Do or Bind gave", e.held.Resource)
}

func (e *reentryError) Unwrap() error { return &e.held }
