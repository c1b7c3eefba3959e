package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// run acquires the lock, runs the command under it, and gives the lock back once
// the command has ended, whatever happens to the lock meanwhile.
func (j *job) run(ctx context.Context) error {
	signals, stop := process.Signals()
	defer stop()
	g, err := guard.Start()
	if err != nil {
		return exitf(statusFailed, "no guard could be started: %v; look whether the machine has room for another process", err)
	}
	defer g.Close()
	l, err := j.await(ctx, signals, &holdfast.Options{Trace: &holdfast.Trace{
		Renewed: func(h *holdfast.Hold, err error) {
			j.failed.Store(&err)
			if err == nil {
				extend(g, h)
			}
		},
	}})
	if err != nil {
		return err
	}
	granted := guard.Now()
	j.notice()

	tty := terminal.Open()
	defer tty.Close()
	a := attendance{job: j, guard: g, tty: tty, hold: l.hold}
	if err := a.start(); err != nil {
		_ = l.release() // if it fails the lock ends by itself; nothing ran under it
		return j.notStarted(l.hold, err)
	}
	result := a.attend(signals)
	if a.lost && !j.lenient {
		_ = l.release() // it may be there yet: the command was ended before its time
		return j.loss(l.hold, result)
	}
	j.giveBack(l, j.atLeast-(guard.Now()-granted))
	return j.ended(result)
}

// extend tells the guard how long the hold is sure to last. The clock is read
// first, so that time that passes between the two shortens it.
func extend(g *guard.Guard, h *holdfast.Hold) {
	now := guard.Now()
	if left := h.Left(); left > 0 {
		g.Extend(now + left)
	}
}

// giveBack releases the lock, or has it released after what is left of --at-least.
// The command did its work under the lock, and that is what counts: what fails here
// is a warning.
func (j *job) giveBack(l lease, rest time.Duration) {
	if rest >= time.Millisecond && l.hold.Left() > 0 {
		j.keepFor(l, rest)
		return
	}
	err := l.release()
	if err == nil || errors.Is(err, holdfast.ErrLost) {
		return // it ended by itself, after the command
	}
	say("%q has ended, but its lock of %q could not be released: %s. It ends by itself within %v",
		j.command[0], j.resource, reason(err), j.ttl)
}

// keepFor leaves the lock to its end. A release with a delay cannot move the end
// away, so a short lease is made longer first.
func (j *job) keepFor(l lease, rest time.Duration) {
	until := time.Now().Add(rest)
	ctx, cancel := context.WithTimeout(context.Background(), j.ttl)
	defer cancel()
	defer l.client.Close()
	if l.hold.Left() < rest {
		if err := l.hold.Renew(ctx, max(rest, holdfast.MinTTL)); err != nil {
			say("%q has ended, but its lock of %q could not be kept for %v more: %s", j.command[0], j.resource, rest.Round(time.Second), reason(err))
		}
	}
	if err := l.hold.UnlockAfter(ctx, max(time.Until(until), 0)); err != nil {
		say("%q has ended, but that its lock of %q is to end could not be told: %s. It ends by itself", j.command[0], j.resource, reason(err))
		return
	}
	say("%q stays locked until %s", j.resource, until.Format("15:04:05"))
}

// ended is the exit of a job whose command has ended in its own way.
func (j *job) ended(result guard.Result) error {
	switch {
	case result.Fell:
		return killed(result.Signal, fmt.Sprintf("the process that guards %q was killed, so the command was killed too; run it again", j.command[0]))
	case result.Signal != 0:
		return killed(result.Signal, "")
	case result.Code != 0:
		return &exitError{status: result.Code}
	}
	return nil
}

// environment is this process's own, and what the command may want to know of
// its lock.
func (j *job) environment(hold *holdfast.Hold) []string {
	return append(os.Environ(),
		"HOLDFAST_RESOURCE="+j.resource,
		"HOLDFAST_LOCK_ID="+hold.LockID(),
		fmt.Sprintf("HOLDFAST_TOKEN=%d", hold.Token()),
		heldVariable+"="+j.held(os.Getenv(heldVariable), hold.LockID()))
}

// notStarted is the exit of a command that was found but was not started.
func (j *job) notStarted(hold *holdfast.Hold, err error) error {
	switch {
	case errors.Is(err, guard.ErrLate):
		return exitf(j.lostExit, "the lock of %q was lost before %q was run: %v; run it again", j.resource, j.command[0], j.lossOf(hold))
	case errors.Is(err, guard.ErrFell):
		return exitf(statusFailed, "the process that was to guard %q was killed, so the command was not run; run it again", j.command[0])
	case errors.Is(err, fs.ErrNotExist):
		return exitf(statusNotFound, "%q cannot be run: the interpreter that its first line names is not there", j.command[0])
	}
	return cannotRun(j.command[0], err)
}

// lossOf is why the lock was lost. When the guard ends the command, which it does
// before the time has run out, the hold does not know it yet.
func (j *job) lossOf(hold *holdfast.Hold) error {
	if lost, ok := errors.AsType[*holdfast.LostError](context.Cause(hold.Context())); ok {
		return lost.Cause
	}
	if err := j.failed.Load(); err != nil && *err != nil {
		return fmt.Errorf("%w: %w", holdfast.ErrUnreachable, cmp.Or(errors.Unwrap(*err), *err))
	}
	return holdfast.ErrUnreachable // no answer came in time
}

// loss is the exit of a job whose lock was lost. The command has ended by now.
func (j *job) loss(hold *holdfast.Hold, result guard.Result) error {
	why := j.lossOf(hold)
	advice := "run it again"
	if !errors.Is(why, holdfast.ErrForced) {
		advice = "run it again, and let a longer --ttl survive longer silence"
	}
	return exitf(j.lostExit, "the lock of %q was lost while %q ran: %v. It has ended with status %d; %s",
		j.resource, j.command[0], why, result.Status(), advice)
}
