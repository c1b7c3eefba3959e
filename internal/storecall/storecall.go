// Package storecall has the common parts of all calls of a store: a context that limits the
// call, its timeout, and the pauses before repeats.
package storecall

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// Never is a time of the clock that never comes.
const Never = time.Duration(1<<63 - 1)

// Context is the context of one call. It ends after Timeout and, unless it is Detached, with
// Parent and with Scope.Life. It makes the contexts for that only when the store asks for the
// channel or polls the error: a store in memory does neither, and a lock there would take
// twice as long if they were made at once.
type Context struct {
	Parent   context.Context
	Scope    *Scope
	Timeout  time.Duration
	By       time.Duration // a time of Scope.Clock at which it also ends; 0 for none
	Detached bool          // it has only the values of Parent, and outlives Scope.Life

	ended  bool
	polls  int32 // calls of Err
	mu     sync.Mutex
	ctx    context.Context // nil until it is needed
	cancel func()
}

// made returns the context, which it makes if needed. c.mu is held.
func (c *Context) made() context.Context {
	if c.ctx == nil {
		parent := context.WithoutCancel(c.Parent)
		if !c.Detached {
			parent = Uncaused{c.Parent}
		}
		if c.By != 0 && c.By != Never {
			c.Timeout = min(c.Timeout, max(c.By-c.Scope.Clock(), LastChance))
		}
		ctx, cancel := context.WithTimeout(parent, c.Timeout)
		c.ctx, c.cancel = ctx, cancel
		if !c.Detached {
			stop := context.AfterFunc(c.Scope.Life, cancel)
			c.cancel = func() { stop(); cancel() }
		}
	}
	if c.ended || !c.Detached && c.Scope.Life.Err() != nil { // AfterFunc would cancel it a moment later
		c.cancel()
	}
	return c.ctx
}

// End frees the resources of the context and returns the call's error. If the call timed out,
// the error says so: the caller did not choose the timeout.
func (c *Context) End(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.ctx == nil {
		return err
	}
	timedOut := errors.Is(c.ctx.Err(), context.DeadlineExceeded) && (c.Detached || c.Parent.Err() == nil)
	c.cancel()
	if timedOut && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w", c.Timeout.Round(time.Millisecond), err)
	}
	return err
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made().Deadline()
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made().Done()
}

// fewPolls is how often a store calls Err if it checks before each step. A store that calls
// Err more often may be polling until the timeout.
const fewPolls = 8

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls++
	switch {
	case c.ctx != nil || c.polls > fewPolls:
		return c.made().Err()
	case c.Detached:
		return nil
	case c.Scope.Life.Err() != nil:
		return context.Canceled
	}
	return c.Parent.Err()
}

// Value implements context.Context. It asks the inner context if there is one, so that a
// context derived from this one ends with it without a goroutine.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	ctx := c.ctx
	c.mu.Unlock()
	if ctx == nil {
		ctx = Uncaused{c.Parent}
	}
	return ctx.Value(key)
}

// Uncaused is a caller's context without its cause, for a store. net/http and others return
// the cause of a context as their error, which may be an error of this module about another
// lock. A store that passes it on must not be taken to have answered.
type Uncaused struct{ context.Context }

// Value implements context.Context. Package context finds a cause by a value with a key of
// its own; WithoutCancel hides that value and no other.
func (u Uncaused) Value(key any) any { return context.WithoutCancel(u.Context).Value(key) }

// AfterFunc lets a derived context end with this one without a waiting goroutine.
func (u Uncaused) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(u.Context, f) }

// LastChance is the time that a call about a hold gets even if the deadline of the hold is
// nearer or past: a late call does no harm, and may help other clients.
const LastChance = time.Second

// Timeout returns the timeout of a call about a hold with that TTL: long enough for a slow or
// late answer, and short enough for several calls.
func Timeout(ttl time.Duration) time.Duration {
	return min(max(ttl/3, time.Second), 10*time.Second)
}

// The first pause and the longest pause before a request without an answer is repeated.
const (
	RetryFirst = 10 * time.Millisecond
	RetryLimit = time.Second
)

// Retries returns the pauses between such repeats.
func Retries() backoff.Backoff { return backoff.New(RetryFirst, RetryLimit) }

// ErrForced is the reason of a loss if the hold ended in the store before its time.
var ErrForced = errors.New("the store no longer has it: released by force, or the store lost its data or its clock stepped")

// Permanent reports whether repeating the request is useless.
func Permanent(err error) bool {
	return errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrInvalid) ||
		errors.Is(err, driver.ErrUnusable) || errors.Is(err, driver.ErrDamaged)
}

// Outcome returns the i-th outcome of a batch. A missing outcome is unknown, and so are all
// outcomes of a failed batch.
func Outcome[R any](results []R, err error, i int, errOf func(R) error) error {
	switch {
	case err != nil:
		return err
	case i >= len(results):
		return fmt.Errorf("the store answered %d requests of a batch, not the one at %d", len(results), i)
	}
	return errOf(results[i])
}
