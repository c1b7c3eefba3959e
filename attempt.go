package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// attempt is the context of one call of the store: it ends with the caller's and
// with the Client (unless detached), and after a time of its own. It costs
// nothing more until the store asks for a channel, or again and again for its
// error, which one in memory never does: docs/adr/0018.
type attempt struct {
	parent   context.Context
	client   *Client
	timeout  time.Duration
	by       time.Duration // a deadline to end at as well, 0: none
	detached bool          // of the parent only the values count, and the Client may end

	making sync.Mutex
	inner  atomic.Pointer[inner] // made on demand
	polls  atomic.Int32          // calls of Err
	ended  atomic.Bool
}

type inner struct {
	context.Context
	cancel  func()
	timeout time.Duration
}

func (a *attempt) made() context.Context {
	a.making.Lock()
	defer a.making.Unlock()
	if made := a.inner.Load(); made != nil {
		return made.Context
	}
	parent := a.parent
	if a.detached {
		parent = context.WithoutCancel(parent)
	}
	timeout := a.timeout
	if a.by != 0 && a.by != never {
		timeout = min(timeout, max(a.by-a.client.clock(), lastChance))
	}
	ctx, cancel := context.WithTimeout(parent, timeout)
	made := &inner{ctx, cancel, timeout}
	if !a.detached {
		stop := context.AfterFunc(a.client.life, cancel)
		made.cancel = func() { stop(); cancel() }
	}
	// Either this sees that the attempt has ended, or end sees this.
	a.inner.Store(made)
	if a.ended.Load() {
		made.cancel()
	}
	return ctx
}

// end frees what the attempt holds, and returns the call's error. One that comes of
// the attempt's own time, which is none that the caller chose, says so.
func (a *attempt) end(err error) error {
	a.ended.Store(true)
	made := a.inner.Load()
	if made == nil {
		return err
	}
	mine := errors.Is(made.Err(), context.DeadlineExceeded) && (a.detached || a.parent.Err() == nil)
	made.cancel()
	if mine && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v: %w", made.timeout.Round(time.Millisecond), err)
	}
	return err
}

// fewPolls is how often a store asks for the error that looks before each step.
const fewPolls = 8

func (a *attempt) Deadline() (time.Time, bool) { return a.made().Deadline() }
func (a *attempt) Done() <-chan struct{}       { return a.made().Done() }

func (a *attempt) Err() error {
	made := a.inner.Load()
	switch {
	case made != nil:
		return made.Err()
	case a.polls.Add(1) > fewPolls:
		// It may go on until this says that the time is over.
		return a.made().Err()
	case a.detached:
		return nil
	case a.client.life.Err() != nil:
		return context.Canceled
	}
	return a.parent.Err()
}

// Value goes to the inner context where there is one, so that contexts derived
// from this one find its cancellation without a goroutine.
func (a *attempt) Value(key any) any {
	if made := a.inner.Load(); made != nil {
		return made.Value(key)
	}
	return a.parent.Value(key)
}

// ctxError returns why ctx ended: an error that is both ctx.Err() and, if the
// caller gave one, the cause.
func ctxError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// endedWith returns why ctx ended, and what the last attempt came to if that is
// more.
func endedWith(ctx context.Context, err error) error {
	end := ctxError(ctx)
	if errors.Is(err, ctx.Err()) {
		return end
	}
	return fmt.Errorf("%w; the last attempt: %w", end, err)
}

// lastChance is what a call about a hold gets even if the hold's deadline is
// nearer or past: late it does no harm, and may still be of use to others.
const lastChance = time.Second

// attemptTimeout bounds one call about a hold with that TTL: long enough for a
// slow answer to be heard, even too late, short enough that several fit.
func attemptTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/3, time.Second), 10*time.Second)
}
