package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

// attempt is the context of one call of the store. It ends with the caller's context
// and with the Client (unless detached), and after a time of its own. It makes the
// contexts that this takes when the store asks for a channel or polls the error, and
// a store in memory does neither: docs/adr/0018.
type attempt struct {
	parent   context.Context
	client   *Client
	timeout  time.Duration
	by       time.Duration // a deadline to end at as well, 0: none
	detached bool          // of the parent only the values count, and the Client may end

	ended  bool
	polls  int32 // calls of Err
	mu     sync.Mutex
	ctx    context.Context // nil until it is needed
	cancel func()
}

// made returns the context, which it makes if need be. a.mu is held.
func (a *attempt) made() context.Context {
	if a.ctx != nil {
		return a.ctx
	}
	parent := context.WithoutCancel(a.parent)
	if !a.detached {
		parent = uncaused{a.parent}
	}
	if a.by != 0 && a.by != never {
		a.timeout = min(a.timeout, max(a.by-a.client.clock(), lastChance))
	}
	ctx, cancel := context.WithTimeout(parent, a.timeout)
	a.ctx, a.cancel = ctx, cancel
	if !a.detached {
		stop := context.AfterFunc(a.client.life, cancel)
		a.cancel = func() { stop(); cancel() }
	}
	if a.ended {
		a.cancel()
	}
	return ctx
}

// end frees what the attempt holds, and returns the call's error. If the attempt's
// own time was over, which the caller did not choose, the error says so.
func (a *attempt) end(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.ctx == nil {
		return err
	}
	timedOut := errors.Is(a.ctx.Err(), context.DeadlineExceeded) && (a.detached || a.parent.Err() == nil)
	a.cancel()
	if timedOut && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w", a.timeout.Round(time.Millisecond), err)
	}
	return err
}

// Deadline implements context.Context.
func (a *attempt) Deadline() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made().Deadline()
}

// Done implements context.Context.
func (a *attempt) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made().Done()
}

// fewPolls is how often a store calls Err if it checks before each step. A store that
// calls it more often may poll until the time is over.
const fewPolls = 8

// Err implements context.Context.
func (a *attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.polls++
	switch {
	case a.ctx != nil || a.polls > fewPolls:
		return a.made().Err()
	case a.detached:
		return nil
	case a.client.life.Err() != nil:
		return context.Canceled
	}
	return a.parent.Err()
}

// Value implements context.Context. It asks the inner context if there is one, so
// that a context derived from this one ends with it without a goroutine.
func (a *attempt) Value(key any) any {
	a.mu.Lock()
	ctx := a.ctx
	a.mu.Unlock()
	if ctx == nil {
		ctx = uncaused{a.parent}
	}
	return ctx.Value(key)
}

// uncaused is a caller's context for a store: it has no cause. net/http and others return
// the cause of a context as their error, and that may be any of this package's errors, about
// another lock. A store that passes it on must not be taken to have answered.
type uncaused struct{ context.Context }

// Value implements context.Context. By a value of its own, package context would find the
// cause; WithoutCancel hides that, and nothing else.
func (u uncaused) Value(key any) any { return context.WithoutCancel(u.Context).Value(key) }

// AfterFunc lets a context derived from this one end with it without a goroutine that waits.
func (u uncaused) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(u.Context, f) }

// lastChance is the time that a call about a hold gets even if the hold's deadline is
// nearer or past: a late call does no harm, and may still help others.
const lastChance = time.Second

// attemptTimeout bounds one call about a hold with that TTL: long enough to hear a
// slow answer, even too late, and short enough that several calls fit.
func attemptTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/3, time.Second), 10*time.Second)
}

// The pauses before a request without an answer is repeated.
const (
	retryFirst = 10 * time.Millisecond
	retryLimit = time.Second
)

func retries() backoff.Backoff { return backoff.New(retryFirst, retryLimit) }
