package acquire

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// How long to wait before a store that gave no answer is asked again.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// acquirer is an acquisition under way.
type acquirer struct {
	*Request
	client *holdfast.Client // nil: the store has not been opened yet
	line   *waitLine

	mu     sync.Mutex // of what follows: the Trace is told by a goroutine of its own
	silent error      // why the last request had no answer; nil: it had one
	told   bool       // that the store gives no answer
}

// acquire asks the store for the lock, and goes on while it gives no answer: until
// ctx ends, or once only.
func (a *Request) acquire(ctx context.Context, o *holdfast.Options) (Lease, error) {
	k := &acquirer{Request: a}
	if !a.quiet && !a.once() {
		k.line = newWaitLine()
	}
	o = k.options(ctx, o)
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		hold, err := k.try(ctx, o)
		if err == nil {
			k.line.end()
			return Lease{k.client, hold}, nil
		}
		if a.once() || errors.Is(err, holdfast.ErrHeld) || location.Lasting(err) {
			return Lease{}, k.refusal(err)
		}
		k.noAnswer(ctx, cmp.Or(errors.Unwrap(err), err))
		select {
		case <-ctx.Done():
			return Lease{}, k.refusal(err)
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// try opens the store if it is not open, and asks for the lock.
func (k *acquirer) try(ctx context.Context, o *holdfast.Options) (*holdfast.Hold, error) {
	if k.client == nil {
		client, err := holdfast.Open(ctx, k.Store.URL, o)
		if err != nil {
			return nil, err
		}
		k.client = client
	}
	lock := k.client.Lock
	switch {
	case k.once() && k.Mode == holdfast.Shared:
		lock = k.client.TryRLock
	case k.once():
		lock = k.client.TryLock
	case k.Mode == holdfast.Shared:
		lock = k.client.RLock
	}
	return lock(ctx, k.Resource, &k.Options)
}

// options are those with --poll, and with a Trace that sees every answer. The Client
// asks again by itself for a while, of which nobody else would hear.
func (k *acquirer) options(ctx context.Context, o *holdfast.Options) *holdfast.Options {
	var opts holdfast.Options
	if o != nil {
		opts = *o
	}
	opts.Poll = k.poll
	var trace holdfast.Trace
	if opts.Trace != nil {
		trace = *opts.Trace
	}
	also := trace.Attempt
	trace.Attempt = func(i holdfast.AttemptInfo) {
		if also != nil {
			also(i)
		}
		if held, ok := errors.AsType[*holdfast.HeldError](i.Err); ok {
			k.line.show(held)
		}
		if i.Err == nil || errors.Is(i.Err, holdfast.ErrHeld) || location.Lasting(i.Err) {
			k.mu.Lock()
			k.silent = nil
			k.mu.Unlock()
			return
		}
		k.noAnswer(ctx, i.Err)
	}
	opts.Trace = &trace
	return &opts
}

// noAnswer notes why the store gave none, and says so the first time.
func (k *acquirer) noAnswer(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // that is why
	}
	k.line.hide()
	k.mu.Lock()
	k.silent = err
	known := k.told || k.once()
	k.told = true
	k.mu.Unlock()
	if known {
		return
	}
	until := "it does"
	if !k.forever {
		until = "--wait " + k.wait.String() + " is over"
	}
	output.Say("the store %s gave no answer: %s. Trying again until %s", k.Store.Name(), output.Reason(err), until)
}

// refusal is the exit if the lock was not acquired.
func (k *acquirer) refusal(err error) error {
	k.line.end()
	if k.client != nil {
		_ = k.client.Close() // nothing is held
	}
	held, ok := errors.AsType[*holdfast.HeldError](err)
	switch {
	case ok && held.BySelf:
		return exit.Errorf(k.ConflictExit, "%q is held by the same lock ID already; renew or release that hold first", k.Resource)
	case ok && k.once():
		return exit.Errorf(k.ConflictExit, "%s. Try again later, or wait for it with --wait", describe(held))
	case ok:
		return exit.Errorf(k.ConflictExit, "%s; gave up after %v. Try again later, or wait longer with --wait", describe(held), k.wait)
	case k.once() || location.Lasting(err):
		return k.Store.Failure(err)
	}
	why := ""
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.silent != nil {
		why = ": " + output.Reason(k.silent)
	}
	return exit.Errorf(exit.Store, "the store %s gave no answer%s; gave up after %v. Try again later, or wait longer with --wait",
		k.Store.Name(), why, k.wait)
}
