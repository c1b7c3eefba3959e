package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// ended returns the exit of a job whose command was not ended for a lost lock. If it ran
// on after a loss and succeeded, its success is worth less than what --lost-exit asks for.
func (j *Job) ended(result guard.Result, lost bool) error {
	switch {
	case result.Fell:
		return j.fell("; run it again")
	case result.Signal != 0:
		return exit.Killed(result.Signal, "")
	case result.Code != 0:
		return &exit.Error{Status: result.Code}
	case lost && j.lostGiven():
		return &exit.Error{Status: j.lostExit}
	}
	return nil
}

// abandoned returns the exit of a job whose guard was killed, and whose processes are not
// all known to have ended. The lock stays until its time is up.
func (j *Job) abandoned(held locks) error {
	rest := "has ended"
	if left := held.left(); left > 0 {
		rest = fmt.Sprintf("is not released, and ends by itself within %v", left.Round(time.Millisecond))
	}
	return j.fell(fmt.Sprintf(", but some of its processes may live on: those that left its process group are not found here. "+
		"Its lock of %s %s. Look for them, and run it again", j.Names(), rest))
}

// fell returns the exit of a job whose guard was killed.
func (j *Job) fell(more string) error {
	return exit.Killed(syscall.SIGKILL, fmt.Sprintf("the process that guards %q was killed, and with it all that it had started%s", j.Command[0], more))
}

// notStarted returns the exit for a command that was found but not started.
func (j *Job) notStarted(held locks, err error) error {
	switch {
	case errors.Is(err, guard.ErrLate):
		return exit.Errorf(j.lostExit, "the lock of %q was lost before %q was run: %v; run it again", held.lost().Resource(), j.Command[0], j.lossOf(held.lost()))
	case errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.NotFound, "%q cannot be run: the interpreter that its first line names is not there", j.Command[0])
	}
	return cannotRun(j.Command[0], err)
}

// lossOf returns why the lock was lost. The guard ends the command before the time
// runs out, so the hold may not be lost yet.
func (j *Job) lossOf(hold *holdfast.Hold) error {
	if lost, ok := errors.AsType[*holdfast.LostError](context.Cause(hold.Context())); ok {
		return lost.Cause
	}
	if err := j.failed.Load(); err != nil && *err != nil {
		return fmt.Errorf("%w: %w", holdfast.ErrUnreachable, cmp.Or(errors.Unwrap(*err), *err))
	}
	return holdfast.ErrUnreachable // no answer came in time
}

// loss returns the exit for a lost lock. The command has ended by now; rest says that its main
// process had ended before.
func (j *Job) loss(hold *holdfast.Hold, why error, result guard.Result, rest bool) error {
	if rest {
		return exit.Errorf(j.lostExit, "the lock of %q was lost while run waited for what %q had left: %v. %q had ended with status %d, and the rest was ended; check what it left unfinished",
			hold.Resource(), j.Command[0], why, j.Command[0], result.Status())
	}
	advice := "run it again"
	switch {
	case errors.Is(why, holdfast.ErrForced):
		advice = "find out who released it before you run it again"
	case errors.Is(why, holdfast.ErrUnusable):
		advice = "fix this, and run it again"
	case errors.Is(why, holdfast.ErrUnreachable):
		advice += ", with a longer --ttl to survive longer outages"
	}
	return exit.Errorf(j.lostExit, "the lock of %q was lost while %q ran: %v. It has ended with status %d; %s",
		hold.Resource(), j.Command[0], why, result.Status(), advice)
}
