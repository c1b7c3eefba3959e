package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast"
)

// lease is a lock, with the client that keeps it alive.
type lease struct {
	client *holdfast.Client
	hold   *holdfast.Hold
}

// release gives the lock back. Its error says that the store may not know.
func (l lease) release() error {
	err := l.hold.Unlock(context.Background())
	_ = l.client.Close() // nothing is held any more
	return err
}

// once says that it is not waited for the lock.
func (a *acquisition) once() bool { return !a.forever && a.wait == 0 }

// await acquires the lock with a client of those options, until it has been waited
// long enough or a signal comes.
func (a *acquisition) await(ctx context.Context, signals <-chan os.Signal, o *holdfast.Options) (lease, error) {
	var cancel context.CancelFunc
	if a.forever || a.once() {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, a.wait)
	}
	defer cancel()
	type answer struct {
		lease
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		l, err := a.acquire(ctx, o)
		answers <- answer{l, err}
	}()
	var got answer
	var sig os.Signal
	select {
	case got = <-answers:
		select {
		case sig = <-signals:
		default:
		}
	case sig = <-signals:
		cancel()
		got = <-answers
	}
	if sig == nil {
		return got.lease, got.err
	}
	if got.err == nil {
		_ = got.release() // if it fails the lock ends by itself; nothing ran under it
	}
	return lease{}, interrupted(sig)
}

// acquire asks the store for the lock.
func (a *acquisition) acquire(ctx context.Context, o *holdfast.Options) (lease, error) {
	client, err := holdfast.Open(ctx, a.store.url, o)
	if err != nil {
		return lease{}, a.store.failure(err)
	}
	lock := client.Lock
	switch {
	case a.once() && a.mode == holdfast.Shared:
		lock = client.TryRLock
	case a.once():
		lock = client.TryLock
	case a.mode == holdfast.Shared:
		lock = client.RLock
	}
	hold, err := lock(ctx, a.resource, &a.lock)
	if err != nil {
		_ = client.Close() // nothing is held
		return lease{}, a.refusal(err)
	}
	return lease{client, hold}, nil
}

// refusal is the exit if the lock was not acquired.
func (a *acquisition) refusal(err error) error {
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if !ok {
		return a.store.failure(err)
	}
	if a.once() {
		return exitf(statusNotAcquired, "%s. Try again later, or wait for it with --wait", describe(held))
	}
	return exitf(statusNotAcquired, "%s; gave up after %v. Try again later, or wait longer with --wait", describe(held), a.wait)
}

// describe says who is in the way.
func describe(e *holdfast.HeldError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q is held", e.Resource)
	if len(e.Holders) == 0 {
		return b.String()
	}
	h := e.Holders[0]
	switch {
	case h.Owner != "" && h.Host != "":
		fmt.Fprintf(&b, " by %s on %s", h.Owner, h.Host)
	case h.Owner != "":
		fmt.Fprintf(&b, " by %s", h.Owner)
	default:
		fmt.Fprintf(&b, " by lock ID %s", h.LockID)
	}
	if h.Comment != "" {
		fmt.Fprintf(&b, " (%s)", h.Comment)
	}
	if n := len(e.Holders) - 1; n > 0 {
		fmt.Fprintf(&b, " and %d more", n)
	}
	return b.String()
}

// interrupted is the end of a job that a signal ended before its command ran.
func interrupted(sig os.Signal) error {
	number, _ := sig.(syscall.Signal)
	return killed(number, fmt.Sprintf("stopped by a signal (%v) before the lock was acquired; the command was not run", sig))
}
