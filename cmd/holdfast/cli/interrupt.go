package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
)

// tidiedUp returns the exit of a command that a signal ended and that has released
// its locks, or nil if no signal ended ctx.
func tidiedUp(ctx context.Context) error {
	i, ok := errors.AsType[process.Interruption](context.Cause(ctx))
	if !ok {
		return nil
	}
	return exit.Killed(i.Signal, fmt.Sprintf("stopped by a signal (%v); what was locked is released, or ends by itself within %v", i.Signal, holdfast.DefaultTTL))
}
