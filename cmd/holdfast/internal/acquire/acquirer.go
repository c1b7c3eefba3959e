package acquire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/server/words"
)

// The first and the longest pause after a request without an answer.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// acquirer is an acquisition under way.
type acquirer struct {
	*Request
	client *holdfast.Client // nil: the store has not been opened yet
	holds  []*holdfast.Hold // of the first resources
	line   *waitLine
	end    context.CancelCauseFunc // of the acquisition, with the exit as the cause

	mu     sync.Mutex // guards what follows: the Trace is called by another goroutine
	silent error      // why the last request had no answer; nil: it had one
	told   bool       // a message said so
	toldAt time.Time  // when the last such message was printed
	heard  bool       // there was an answer, or an error
}

// acquire acquires the locks, all or none. While the store gives no answer it retries until
// ctx ends, unless the request is for one try.
func (r *Request) acquire(ctx context.Context, o *holdfast.Options) (Lease, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	a := &acquirer{Request: r, end: end}
	if !r.quiet && !r.once() {
		a.line = newWaitLine()
	}
	o = a.options(ctx, o)
	defer a.watchSilence()()
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := a.try(ctx, o)
		if err == nil {
			a.line.end()
			return Lease{a.client, a.holds}, nil
		}
		if a.lostOne() {
			a.giveBack(ctx)
			continue
		}
		if r.once() || errors.Is(err, holdfast.ErrHeld) || errors.Is(err, errNoQueue) || location.Lasting(err) {
			return Lease{}, a.refusal(ctx, err)
		}
		a.noAnswer(ctx, cmp.Or(errors.Unwrap(err), err))
		select {
		case <-ctx.Done():
			return Lease{}, a.refusal(ctx, err)
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

var errNoQueue = errors.New("the store keeps no queue")

// try opens the store if it is not open, and makes one attempt for each lock that is left.
func (a *acquirer) try(ctx context.Context, o *holdfast.Options) error {
	if a.client == nil {
		client, err := holdfast.Open(ctx, a.Store.URL, o)
		if err != nil {
			return err
		}
		a.client = client
	}
	if a.NeedsQueue != "" && !a.client.Traits().Queue {
		return errNoQueue
	}
	return a.from(ctx, 0)
}

// from acquires the locks from the i-th on that are not held yet. Each wait is under the
// locks before: the loss of one of them ends it.
func (a *acquirer) from(ctx context.Context, i int) error {
	if i == len(a.Resources) {
		return nil
	}
	if i == len(a.holds) {
		h, err := a.lock(ctx, a.Resources[i])
		if err != nil {
			return err
		}
		a.holds = append(a.holds, h)
	}
	ctx, end := a.holds[i].Bind(ctx)
	defer end()
	return a.from(ctx, i+1)
}

// lock makes one attempt for one lock. All have the lock ID of the first.
func (a *acquirer) lock(ctx context.Context, resource string) (*holdfast.Hold, error) {
	if err := a.apart(ctx, resource); err != nil {
		return nil, err
	}
	opts := a.Options
	if len(a.holds) > 0 {
		opts.LockID = a.holds[0].LockID()
	}
	lock := a.client.Lock
	switch {
	case a.once() && a.Mode == holdfast.Shared:
		lock = a.client.TryRLock
	case a.once():
		lock = a.client.TryLock
	case a.Mode == holdfast.Shared:
		lock = a.client.RLock
	}
	return lock(ctx, resource, &opts)
}

// giveBack releases the locks that are held, to begin anew. What fails ends by itself.
func (a *acquirer) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, longPause)
	defer cancel()
	_ = unlock(ctx, a.holds)
	a.holds = nil
}

// lostOne reports whether a lock was lost while the acquirer waited for another.
func (a *acquirer) lostOne() bool {
	return slices.ContainsFunc(a.holds, func(h *holdfast.Hold) bool { return h.Context().Err() != nil })
}

// options returns the options with --poll and a Trace that sees every answer: the
// Client retries by itself for a while before it returns an error.
func (a *acquirer) options(ctx context.Context, o *holdfast.Options) *holdfast.Options {
	var opts holdfast.Options
	if o != nil {
		opts = *o
	}
	opts.Poll = a.poll
	opts.Trace = holdfast.Traces(opts.Trace, &holdfast.Trace{AttemptEnd: func(_ context.Context, i holdfast.AttemptInfo) {
		if held, ok := errors.AsType[*holdfast.HeldError](i.Err); ok {
			if n := slices.IndexFunc(held.Holders, IsAround); n >= 0 {
				a.end(inside(held.Holders[n]))
				return
			}
			a.line.show(held, a.Options.Fair)
		}
		if i.Err == nil || errors.Is(i.Err, holdfast.ErrHeld) || location.Lasting(i.Err) {
			a.mu.Lock()
			a.silent, a.heard, a.told = nil, true, false
			a.mu.Unlock()
			return
		}
		a.noAnswer(ctx, i.Err)
	}})
	return &opts
}

// noAnswer notes why the store gave no answer that counts, and prints that once for each time
// that the store fails, at most once a minute, also with --quiet: the wait may have no end.
func (a *acquirer) noAnswer(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the end of the wait is the reason
	}
	a.line.hide()
	a.mu.Lock()
	a.silent, a.heard = err, true
	known := a.told || a.once() || time.Since(a.toldAt) < nextLogged
	if !known {
		a.told, a.toldAt = true, time.Now()
	}
	a.mu.Unlock()
	if known {
		return
	}
	output.SayEvent("no-answer", nil, "the store %s could not be used: %s. Trying again until %s", a.Store.Name(), output.Reason(err), a.until())
}

// hasLockID reports whether a hold in the way has the lock ID that was asked for. It may be of
// an earlier command, or of a program that was killed.
func (a *acquirer) hasLockID(e *holdfast.HeldError) bool {
	return slices.ContainsFunc(e.Holders, func(s holdfast.Status) bool { return s.LockID != "" && s.LockID == a.Options.LockID })
}

// refusal returns the exit for a lock that was not acquired. ctx is that of the wait.
func (a *acquirer) refusal(ctx context.Context, err error) error {
	a.line.end()
	if a.client != nil {
		_ = a.client.Close() // all or none: it releases what is held, within 5 s
	}
	if e, ok := errors.AsType[*exit.Error](context.Cause(ctx)); ok {
		return e
	}
	now := time.Now()
	held, ok := errors.AsType[*holdfast.HeldError](err)
	refused := refusal{held, now, a.Options.Fair}
	switch {
	case errors.Is(err, errNoQueue):
		return exit.Usagef("%s needs a store that keeps a queue, and %s keeps none; leave it out, or choose another store", a.NeedsQueue, a.Store.Name())
	case ok && a.once() && a.hasLockID(held):
		return exit.Errorf(a.ConflictExit, "%q is held by the same lock ID already; renew or release that hold first", held.Resource)
	case ok && a.hasLockID(held):
		return exit.Errorf(a.ConflictExit, "%q is held by the same lock ID already; gave up after %v. Renew or release that hold first", held.Resource, a.wait)
	case ok && a.quiet && !held.LimitDiffers: // another limit is a mistake
		return &exit.Error{Status: a.ConflictExit} // which says it
	case ok && a.once():
		return exit.Errorf(a.ConflictExit, "%s. %s", refused.refused(now), a.advice(held, "wait for it with --wait"))
	case ok:
		return exit.Errorf(a.ConflictExit, "%s; gave up after %v. %s", refused.refused(now), a.wait, a.advice(held, "wait longer with --wait"))
	case a.once() && ctx.Err() == nil || location.Lasting(err):
		return a.Store.Failure(err)
	}
	after, advice := a.wait, "or wait longer with --wait"
	if a.once() {
		after, advice = oncePatience, "or wait for it with --wait"
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent == nil {
		return exit.Errorf(exit.Store, "the store %s gave no answer; gave up after %v. Try again later, %s", a.Store.Name(), after, advice)
	}
	return exit.Errorf(exit.Store, "the store %s could not be used: %s; gave up after %v. Fix this if it does not pass by itself, %s",
		a.Store.Name(), output.Reason(a.silent), after, advice)
}

// advice says what to do about a hold that is in the way. --wait of the text may follow.
func (a *acquirer) advice(e *holdfast.HeldError, wait string) string {
	if e.RetryAfter != holdfast.Forever {
		return "Try again later, or " + wait
	}
	of := a.Store.Flag() + " " + words.Argument(e.Resource)
	return fmt.Sprintf("It has no end: holdfast explain%s says whether its holder lives, holdfast unlock --force%s ends it", of, of)
}
