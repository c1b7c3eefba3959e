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

// interruption is why a context ended that a signal ended.
type interruption struct{ signal os.Signal }

func (i interruption) Error() string { return i.signal.String() }

// untilSignal returns a context that a signal ends, so that what was begun can be
// tidied up, which takes some seconds at most. Another signal meanwhile does not
// cut that off: timeout(1), for one, sends its signal twice.
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

// tidiedUp is the exit of a command that a signal ended and that has released what
// it held, or nil if ctx was not ended by one.
func tidiedUp(ctx context.Context) error {
	i, ok := errors.AsType[interruption](context.Cause(ctx))
	if !ok {
		return nil
	}
	return exit.Killed(i.signal, fmt.Sprintf("stopped by a signal (%v); what was locked is released, or ends by itself within %v", i.signal, holdfast.DefaultTTL))
}
