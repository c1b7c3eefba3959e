package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
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
	began := time.Now()
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
	switch {
	case sig == nil && got.err == nil:
		a.acquired(got.hold, time.Since(began))
		return got.lease, nil
	case sig == nil:
		return lease{}, got.err
	case got.err == nil:
		_ = got.release() // if it fails the lock ends by itself; nothing ran under it
	}
	return lease{}, interrupted(sig)
}

// interrupted is the end of a job that a signal ended before its command ran.
func interrupted(sig os.Signal) error {
	return exit.Killed(sig, fmt.Sprintf("stopped by a signal (%v) before the lock was acquired; nothing was run under it", sig))
}
