// Package storecall has what all calls of a store have in common: a context that bounds the
// call, its time-out, and the pauses before it is repeated.
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

// Never is a time of the clock that does not come.
const Never = time.Duration(1<<63 - 1)

// Context is the context of one call. It ends with Parent and with Life, unless it is
// detached, and after Timeout. It makes the contexts that this takes when the store asks for
// a channel or polls the error. A store in memory does neither, and a lock there would take
// twice as long if they were made at once.
type Context struct {
	Parent   context.Context
	Scope    *Scope
	Timeout  time.Duration
	By       time.Duration // a time of the Clock to end at as well; 0: none
	Detached bool          // of Parent only the values count, and Life may end

	ended  bool
	polls  int32 // calls of Err
	mu     sync.Mutex
	ctx    context.Context // nil until it is needed
	cancel func()
}

// made returns the context, which it makes if need be. c.mu is held.
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
	if c.ended || !c.Detached && c.Scope.Life.Err() != nil { // AfterFunc cancels it a moment later
		c.cancel()
	}
	return c.ctx
}

// End frees what the context holds, and returns the call's error. If the time-out was over,
// which the caller did not choose, the error says so.
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

// fewPolls is how often a store calls Err if it checks before each step. A store that
// calls it more often may poll until the time is over.
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

// Value implements context.Context. It asks the inner context if there is one, so
// that a context derived from this one ends with it without a goroutine.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	ctx := c.ctx
	c.mu.Unlock()
	if ctx == nil {
		ctx = Uncaused{c.Parent}
	}
	return ctx.Value(key)
}

// Uncaused is a caller's context for a store: it has no cause. net/http and others return
// the cause of a context as their error, and that may be any of this project's errors, about
// another lock. A store that passes it on must not be taken to have answered.
type Uncaused struct{ context.Context }

// Value implements context.Context. By a value of its own, package context would find the
// cause; WithoutCancel hides that, and nothing else.
func (u Uncaused) Value(key any) any { return context.WithoutCancel(u.Context).Value(key) }

// AfterFunc lets a context derived from this one end with it without a goroutine that waits.
func (u Uncaused) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(u.Context, f) }

// LastChance is the time that a call about a hold gets even if the hold's deadline is
// nearer or past: a late call does no harm, and may still help others.
const LastChance = time.Second

// Timeout bounds one call about a hold with that TTL: long enough to hear a
// slow answer, even too late, and short enough that several calls fit.
func Timeout(ttl time.Duration) time.Duration {
	return min(max(ttl/3, time.Second), 10*time.Second)
}

// The pauses before a request without an answer is repeated.
const (
	RetryFirst = 10 * time.Millisecond
	RetryLimit = time.Second
)

// Retries returns these pauses.
func Retries() backoff.Backoff { return backoff.New(RetryFirst, RetryLimit) }

// ErrForced is why a hold is lost that ended in the store before its time.
var ErrForced = errors.New("the store no longer has it: released by force, or the store lost its data or its clock stepped")

// Answered reports whether err is a definite answer of the store: the request was not
// applied.
func Answered(err error) bool { return errors.Is(err, driver.ErrHeld) || Permanent(err) }

// Permanent reports whether a repeat of the request is useless.
func Permanent(err error) bool {
	return errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrInvalid) ||
		errors.Is(err, driver.ErrUnusable) || errors.Is(err, driver.ErrDamaged)
}

// Outcome returns the i-th outcome of a batch. An outcome that is missing is unknown,
// and so are all outcomes of a batch that failed.
func Outcome[R any](results []R, err error, i int, errOf func(R) error) error {
	switch {
	case err != nil:
		return err
	case i >= len(results):
		return fmt.Errorf("the store answered %d requests of a batch, not the one at %d", len(results), i)
	}
	return errOf(results[i])
}
