package acquire

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// Lease is a lock, with the client that keeps it alive.
type Lease struct {
	Client *holdfast.Client
	Hold   *holdfast.Hold
}

// Release gives the lock back. Its error says that the store may not know.
func (l Lease) Release() error {
	err := l.Hold.Unlock(context.Background())
	_ = l.Client.Close() // nothing is held any more
	return err
}

// once says that it is not waited for the lock.
func (a *Request) once() bool { return !a.forever && a.wait == 0 }

// Await acquires the lock with a client of those options, until it has been waited
// long enough or a signal comes.
func (a *Request) Await(ctx context.Context, signals <-chan os.Signal, o *holdfast.Options) (Lease, error) {
	var cancel context.CancelFunc
	if a.forever || a.once() {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, a.wait)
	}
	defer cancel()
	type answer struct {
		Lease
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
		a.acquired(got.Hold, time.Since(began))
		return got.Lease, nil
	case sig == nil:
		return Lease{}, got.err
	case got.err == nil:
		_ = got.Release() // if it fails the lock ends by itself; nothing ran under it
	}
	return Lease{}, interrupted(sig)
}

// interrupted is the end of a job that a signal ended before its command ran.
func interrupted(sig os.Signal) error {
	return exit.Killed(sig, fmt.Sprintf("stopped by a signal (%v) before the lock was acquired; nothing was run under it", sig))
}
