package acquire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
)

// Lease has locks of one lock ID, one for each resource, with the client that keeps them
// alive.
type Lease struct {
	Client *holdfast.Client
	Holds  []*holdfast.Hold
}

// Release releases the locks. After an error some may still be held.
func (l Lease) Release() error {
	err := unlock(context.Background(), l.Holds)
	_ = l.Client.Close() // nothing is held any more
	return err
}

// unlock releases the locks, all at once.
func unlock(ctx context.Context, holds []*holdfast.Hold) error {
	errs := make([]error, len(holds))
	var all sync.WaitGroup
	for i, h := range holds {
		all.Go(func() { errs[i] = h.Unlock(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// oncePatience is how long a try without a wait takes at most: as long as opening the
// store and a slow answer may take together, or a second request if one is lost.
const oncePatience = 20 * time.Second

// once reports whether the request is for one try, without a wait.
func (r *Request) once() bool { return !r.forever && r.wait == 0 }

// Await acquires the lock with a client of those options. It gives up when the wait
// is over or a signal arrives. From then on nothing waits for the readers of stderr.
func (r *Request) Await(ctx context.Context, signals <-chan os.Signal, o *holdfast.Options) (Lease, error) {
	output.WaitBriefly()
	var cancel context.CancelFunc
	switch {
	case r.forever:
		ctx, cancel = context.WithCancel(ctx)
	case r.once():
		ctx, cancel = context.WithTimeout(ctx, oncePatience)
	default:
		ctx, cancel = context.WithTimeout(ctx, r.wait)
	}
	defer cancel()
	type answer struct {
		Lease
		err error
	}
	began := time.Now()
	answers := make(chan answer, 1)
	go func() {
		l, err := r.acquire(ctx, o)
		answers <- answer{l, err}
	}()
	var got answer
	var sig os.Signal
	for answered := false; !answered; {
		select {
		case got = <-answers:
			answered = true
			select {
			case sig = <-signals:
			default:
			}
		case sig = <-signals:
			if process.Ends(sig) {
				cancel()
				got = <-answers
				answered = true
			}
		}
		if !process.Ends(sig) {
			sig = nil
		}
	}
	switch {
	case sig == nil && got.err == nil:
		r.acquired(got.Holds, time.Since(began))
		return got.Lease, nil
	case sig == nil:
		return Lease{}, got.err
	case got.err == nil:
		_ = got.Release() // if that fails, the lock ends by itself; nothing ran under it
	}
	text := fmt.Sprintf("stopped by a signal (%v) before the lock was acquired", sig)
	if r.Runs {
		text += "; the command was not run"
	}
	return Lease{}, exit.Killed(sig, text)
}
