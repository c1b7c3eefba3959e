package holdfast

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Lock acquires the resource exclusively. If the resource is held, Lock waits until ctx
// ends. The error is then ctx.Err(), with the cause of ctx in its text alone, and also
// ErrHeld if the store's last answer was a refusal. Lock does not wait for a hold of the
// same lock ID that this Client has (HeldError.BySelf). If the store does not answer, Lock
// retries for about one TTL, at most 30 s; the time for which the process was stopped does
// not count.
//
// A caller that works under other locks, with the ctx of Do or Hold.Bind, gets ErrDeadlock
// if their waiters and it wait for each other, some 10 s after that began, in stores that
// keep a queue (Traits.Queue). Without such a ctx nobody knows that it works under them.
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
// Clients, too. So take a shared hold a second time only with a ctx that is bound to the
// first one (Hold.Bind; Under for that of another program): it then passes those that wait.
// With any other ctx the second one would wait for that writer, and the writer for the first.
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
		a.scope = &scope{ctx: context.WithoutCancel(ctx)}
		began = c.clock()
	}
	if err == nil {
		err = a.nest(ctx)
	}
	if err == nil {
		a.asked = ctx.Err() == nil && !c.initDone.Load() // it begins the store's Init, or waits for it
		err = c.start(ctx)
	}
	if err != nil {
		return nil, a.failed(began, wrap("lock", resource, err))
	}
	defer c.work.Done()
	var h *Hold
	if wait {
		h, err = a.wait(ctx)
	} else {
		h, err = a.try(ctx)
	}
	if err != nil {
		return nil, a.failed(began, err)
	}
	if c.opts.Logger != nil {
		c.log(ctx, slog.LevelDebug, "holdfast: lock acquired",
			"resource", resource, "lockID", h.ref.LockID, "token", h.ref.Token, "mode", mode)
	}
	if a.ttl == Forever {
		if err := h.makeEndless(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// nest finds the holds that the caller works under. It fails if the acquirer would wait for
// one of them.
func (a *acquirer) nest(ctx context.Context) error {
	a.under, a.outer = a.c.under(ctx), outerHolds(ctx)
	outer, err := reentry(a.under, a.q)
	if err != nil {
		return err
	}
	if outer != nil {
		a.q.Nested = outer.ref.HoldID
	}
	for _, ref := range a.outer {
		if outer == nil && a.q.Mode == Shared && ref.Resource == a.q.Resource {
			a.q.Nested = ref.HoldID
		}
	}
	return nil
}

// makeEndless renews the first lease to Forever. If the store does not answer, the
// keep-alive retries; without a keep-alive, makeEndless releases the lock.
func (h *Hold) makeEndless(ctx context.Context) error {
	err := h.Renew(ctx, Forever)
	if err == nil || h.keep && !errors.Is(err, ErrLost) {
		return nil
	}
	if unlockErr := h.Unlock(ctx); !errors.Is(unlockErr, ErrLost) {
		err = joined(err, unlockErr)
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
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return wrap("lock", h.ref.Resource, ErrClosed) // Close has released it, or will
	}
	c.work.Add(1)
	c.running.Add(1)
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
		c.running.Done()
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
	hold   *Hold // nil: Under made the binding
	outer  *binding
	others []driver.HoldRef // holds of another program
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
			if u.hold != nil && !yield(u.hold) {
				return
			}
		}
	}
}

// NotUnder returns a copy of ctx that is bound to no hold, though it still ends with the
// holds that ctx is bound to. It is for goroutines that their holder does not wait for:
// what such a goroutine waits for keeps nobody else waiting, so it is part of no deadlock.
func NotUnder(ctx context.Context) context.Context {
	return context.WithValue(ctx, bindingKey{}, (*binding)(nil))
}

// under returns the live holds of this Client that ctx is bound to, the last one first.
func (c *Client) under(ctx context.Context) (holds []*Hold) {
	for h := range HoldsOf(ctx) {
		// Bound to the same hold twice, it has one nevertheless.
		if h.client == c && h.Left() > 0 && !slices.Contains(holds, h) {
			holds = append(holds, h)
		}
	}
	return holds
}

// reentry looks among the holds that the caller works under for those of the resource. It
// refuses a request that cannot be granted before these holds end. A further shared hold
// can be granted: outer is then one of them.
func reentry(under []*Hold, q driver.AcquireRequest) (outer *Hold, err error) {
	var held []*Hold
	refused := q.Mode == Exclusive
	for _, h := range under {
		if h.ref.Resource == q.Resource {
			held = append(held, h)
			refused = refused || h.mode == Exclusive
		}
	}
	if len(held) == 0 {
		return nil, nil
	}
	if !refused && (q.Limit == 0 || len(held) < q.Limit) {
		return held[0], nil
	}
	e := &reentryError{HeldError{Resource: q.Resource, RetryAfter: driver.Unknown, BySelf: true}}
	for _, h := range held {
		e.held.Holders = append(e.held.Holders, Status{
			Resource: h.ref.Resource, LockID: h.ref.LockID, HoldID: h.ref.HoldID, Mode: h.mode, Token: h.ref.Token,
			Left: h.Left(),
		})
	}
	return nil, e
}

// reentryError is a *HeldError that explains where the caller's own hold comes from.
type reentryError struct{ held HeldError }

func (e *reentryError) Error() string {
	return fmt.Sprintf("holdfast: %q is held: you hold it yourself, by the ctx that Do or Bind gave", e.held.Resource)
}

func (e *reentryError) Unwrap() error { return &e.held }
