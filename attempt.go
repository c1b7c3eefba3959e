package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// attempt is the context of one call of the store: it ends with the caller's and
// with the Client (unless detached), and after a time of its own. It costs
// nothing more until the store asks for a channel, which one in memory never
// does.
type attempt struct {
	parent   context.Context
	client   *Client
	timeout  time.Duration
	by       time.Duration // a deadline to end at as well, 0: none
	detached bool          // of the parent only the values count, and the Client may end

	mu     sync.Mutex
	inner  context.Context // made on demand
	cancel context.CancelFunc
	ended  bool
}

func (a *attempt) made() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inner != nil {
		return a.inner
	}
	parent := a.parent
	if a.detached {
		parent = context.WithoutCancel(parent)
	}
	timeout := a.timeout
	if a.by != 0 && a.by != never {
		timeout = min(timeout, max(a.by-a.client.clock(), lastChance))
	}
	inner, cancel := context.WithTimeout(parent, timeout)
	if !a.detached {
		stop := context.AfterFunc(a.client.life, cancel)
		a.cancel = func() { stop(); cancel() }
	} else {
		a.cancel = cancel
	}
	a.inner = inner
	if a.ended {
		a.cancel()
	}
	return a.inner
}

// end frees what the attempt holds.
func (a *attempt) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.cancel != nil {
		a.cancel()
	}
}

func (a *attempt) Deadline() (time.Time, bool) { return a.made().Deadline() }
func (a *attempt) Done() <-chan struct{}       { return a.made().Done() }

func (a *attempt) Err() error {
	a.mu.Lock()
	inner := a.inner
	a.mu.Unlock()
	switch {
	case inner != nil:
		return inner.Err()
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
	a.mu.Lock()
	inner := a.inner
	a.mu.Unlock()
	if inner != nil {
		return inner.Value(key)
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

// endedWith returns why ctx ended, and what the store said if that is more.
func endedWith(ctx context.Context, err error) error {
	end := ctxError(ctx)
	if errors.Is(err, ctx.Err()) {
		return end
	}
	return errors.Join(end, err)
}

// lastChance is what a call about a hold gets even if the hold's deadline is
// nearer or past: late it does no harm, and may still be of use to others.
const lastChance = time.Second

// attemptTimeout bounds one call about a hold with that TTL: long enough for a
// slow answer to be heard, even too late, short enough that several fit.
func attemptTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/3, time.Second), 10*time.Second)
}
