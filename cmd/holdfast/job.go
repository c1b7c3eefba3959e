package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
)

// run acquires the lock, runs the command under it, and gives the lock back once
// the command has ended, whatever happens to the lock meanwhile.
func (j *job) run(ctx context.Context) error {
	signals, stop := process.Signals()
	defer stop()
	l, err := j.await(ctx, signals, nil)
	if err != nil {
		return err
	}
	j.notice()
	p, err := process.Start(process.Spec{Path: j.path, Args: j.command, Env: j.environment(l.hold)})
	if err != nil {
		_ = l.release() // if it fails the lock ends by itself; nothing ran under it
		return j.notStarted(err)
	}
	result, lost := j.attend(p, l.hold, signals)
	err = l.release()
	switch {
	case lost:
		return j.loss(l.hold, result)
	case result.Err != nil:
		return exitf(statusFailed, "how %q ended is not known: %v; look whether it did its work", j.command[0], result.Err)
	case err != nil:
		// The command did its work under the lock, and that is what counts.
		say("%q has ended, but its lock of %q could not be released: %s. It ends by itself within %v",
			j.command[0], j.resource, reason(err), j.ttl)
	}
	if result.Status() == 0 {
		return nil
	}
	return &exitError{status: result.Status()}
}

// attend passes signals on to the command until it ends, and ends it when its
// lock is lost.
func (j *job) attend(p *process.Process, hold *holdfast.Hold, signals <-chan os.Signal) (_ process.Result, lost bool) {
	for {
		select {
		case sig := <-signals:
			p.Signal(sig)
		case <-hold.Context().Done():
			return p.Terminate(grace(j.ttl)), true
		case <-p.Done():
			// This process may have stood still, so that the deadline has passed
			// and nobody has noticed yet.
			return p.Wait(), hold.Left() == 0
		}
	}
}

// grace is how long a command may take to end itself after its lock was lost.
func grace(ttl time.Duration) time.Duration { return min(5*time.Second, ttl/6) }

// environment is this process's own, and what the command may want to know of
// its lock.
func (j *job) environment(hold *holdfast.Hold) []string {
	return append(os.Environ(),
		"HOLDFAST_RESOURCE="+j.resource,
		"HOLDFAST_LOCK_ID="+hold.LockID(),
		fmt.Sprintf("HOLDFAST_TOKEN=%d", hold.Token()))
}

// notStarted is the exit of a command that was found but could not be started.
func (j *job) notStarted(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return exitf(statusNotFound, "%q cannot be run: the interpreter that its first line names is not there", j.command[0])
	}
	return cannotRun(j.command[0], err)
}

// loss is the exit of a job whose lock was lost. The command has ended by now.
func (j *job) loss(hold *holdfast.Hold, result process.Result) error {
	why := holdfast.ErrExpired
	if lost, ok := errors.AsType[*holdfast.LostError](context.Cause(hold.Context())); ok {
		why = lost.Cause
	}
	advice := "run it again"
	if !errors.Is(why, holdfast.ErrForced) {
		advice = "run it again, and let a longer --ttl survive longer silence"
	}
	return exitf(statusLost, "the lock of %q was lost while %q ran: %v. It has ended with status %d; %s",
		j.resource, j.command[0], why, result.Status(), advice)
}
