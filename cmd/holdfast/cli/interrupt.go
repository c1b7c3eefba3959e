package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
)

// interruption is the cause of a context that a signal ended.
type interruption struct{ signal os.Signal }

func (i interruption) Error() string { return i.signal.String() }

// untilSignal returns a context that a signal ends, so that the command can release
// its locks, which takes some seconds at most. A second signal does not cut that
// off: timeout(1), for one, sends its signal twice.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals, stop := process.Ends()
	go func() {
		select {
		case sig := <-signals:
			cancel(interruption{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// tidiedUp returns the exit of a command that a signal ended and that has released
// its locks, or nil if no signal ended ctx.
func tidiedUp(ctx context.Context) error {
	i, ok := errors.AsType[interruption](context.Cause(ctx))
	if !ok {
		return nil
	}
	return exit.Killed(i.signal, fmt.Sprintf("stopped by a signal (%v); what was locked is released, or ends by itself within %v", i.signal, holdfast.DefaultTTL))
}
