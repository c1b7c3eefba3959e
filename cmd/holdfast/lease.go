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

// lease is a lock of the job's, with the client that keeps it alive.
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

// once says that the job does not wait for its lock.
func (j *job) once() bool { return !j.forever && j.wait == 0 }

// await acquires the job's lock, until it has been waited long enough or a signal
// comes.
func (j *job) await(ctx context.Context, signals <-chan os.Signal) (lease, error) {
	var cancel context.CancelFunc
	if j.forever || j.once() {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, j.wait)
	}
	defer cancel()
	type answer struct {
		lease
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		l, err := j.acquire(ctx)
		answers <- answer{l, err}
	}()
	var a answer
	var got os.Signal
	select {
	case a = <-answers:
		select {
		case got = <-signals:
		default:
		}
	case got = <-signals:
		cancel()
		a = <-answers
	}
	if got == nil {
		return a.lease, a.err
	}
	if a.err == nil {
		_ = a.release() // if it fails the lock ends by itself; nothing ran under it
	}
	return lease{}, interrupted(got)
}

// acquire asks the store for the lock.
func (j *job) acquire(ctx context.Context) (lease, error) {
	client, err := j.store.open(ctx)
	if err != nil {
		return lease{}, err
	}
	lock := client.Lock
	switch {
	case j.once() && j.mode == holdfast.Shared:
		lock = client.TryRLock
	case j.once():
		lock = client.TryLock
	case j.mode == holdfast.Shared:
		lock = client.RLock
	}
	hold, err := lock(ctx, j.resource, &j.lock)
	if err != nil {
		_ = client.Close() // nothing is held
		return lease{}, j.refusal(err)
	}
	return lease{client, hold}, nil
}

// refusal is the exit of a job that did not get its lock.
func (j *job) refusal(err error) error {
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if !ok {
		return j.store.failure(err)
	}
	if j.once() {
		return exitf(statusNotAcquired, "%s. Try again later, or wait for it with --wait", describe(held))
	}
	return exitf(statusNotAcquired, "%s; gave up after %v. Try again later, or wait longer with --wait", describe(held), j.wait)
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

// interrupted is the exit of a job that a signal ended before its command ran.
func interrupted(sig os.Signal) error {
	number, _ := sig.(syscall.Signal)
	return exitf(statusSignal+int(number), "stopped by a signal (%v) before the lock was acquired; the command was not run", sig)
}
