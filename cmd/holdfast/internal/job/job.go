// Package job runs a command under a lock. Its supervisor forwards signals, shares
// the terminal as a shell does (Ctrl-Z is in suspend.go), and ends the command when
// the lock is lost.
package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Run acquires the lock, runs the command under it, and releases the lock once the
// command has ended, whatever happens to the lock meanwhile.
func (j *Job) Run(ctx context.Context) error {
	if err := j.notNested(os.Getenv(env.HeldVariable)); err != nil {
		return err
	}
	signals, stop := process.Signals()
	defer stop()
	g, err := guard.Start()
	if err != nil {
		return exit.Errorf(exit.Failed, "no guard could be started: %v; look whether the machine has room for another process", err)
	}
	defer g.Close()
	j.Options.ForOthers = true // for a run in the command
	j.Runs = true
	l, err := j.Await(ctx, signals, &holdfast.Options{Trace: &holdfast.Trace{
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
	j.SayReach()

	tty := terminal.Open()
	defer tty.Close()
	s := supervisor{Job: j, guard: g, tty: tty, hold: l.Hold}
	if err := s.start(); err != nil {
		_ = l.Release() // if that fails, the lock ends by itself; nothing ran under it
		return j.notStarted(l.Hold, err)
	}
	result := s.supervise(signals)
	if s.lost && !j.lenient {
		_ = l.Release() // the lock may still be there: the command is ended before its deadline
		return j.loss(l.Hold, result)
	}
	j.giveBack(l, j.atLeast-(guard.Now()-granted))
	return j.ended(result)
}

// extend sends the guard the time until which the hold certainly lasts. It reads the
// clock first, so that time that passes between the two readings shortens the lease.
func extend(g *guard.Guard, h *holdfast.Hold) {
	now := guard.Now()
	if left := h.Left(); left > 0 {
		g.Extend(now + left)
	}
}

// giveBack releases the lock, or lets it end after the rest of --at-least. The
// command did its work under the lock, so a failure here is only a warning.
func (j *Job) giveBack(l acquire.Lease, rest time.Duration) {
	if rest >= time.Millisecond && l.Hold.Left() > 0 {
		j.keepFor(l, rest)
		return
	}
	err := l.Release()
	if err == nil || errors.Is(err, holdfast.ErrLost) {
		return // the lock ended by itself, after the command
	}
	output.Say("%q has ended, but its lock of %q could not be released: %s. It ends by itself within %v",
		j.Command[0], j.Resource, output.Reason(err), j.TTL)
}

// keepFor keeps the resource locked for the rest of the time. A delayed release
// never makes a lease longer, so keepFor renews a short one first.
func (j *Job) keepFor(l acquire.Lease, rest time.Duration) {
	until := time.Now().Add(rest)
	ctx, cancel := context.WithTimeout(context.Background(), j.TTL)
	defer cancel()
	defer l.Client.Close()
	if l.Hold.Left() < rest {
		if err := l.Hold.Renew(ctx, max(rest, holdfast.MinTTL)); err != nil {
			output.Say("%q has ended, but its lock of %q could not be kept for %v more: %s", j.Command[0], j.Resource, rest.Round(time.Second), output.Reason(err))
		}
	}
	if err := l.Hold.UnlockAfter(ctx, max(time.Until(until), 0)); err != nil {
		output.Say("%q has ended, but the end of its lock of %q could not be set: %s. It ends by itself", j.Command[0], j.Resource, output.Reason(err))
		return
	}
	output.Say("%q stays locked until %s", j.Resource, until.Format("15:04:05"))
}

// environment returns this process's environment and the variables that describe the
// lock.
func (j *Job) environment(hold *holdfast.Hold) []string {
	return append(os.Environ(),
		"HOLDFAST_RESOURCE="+j.Resource,
		"HOLDFAST_LOCK_ID="+hold.LockID(),
		fmt.Sprintf("HOLDFAST_TOKEN=%d", hold.Token()),
		env.HeldVariable+"="+j.held(os.Getenv(env.HeldVariable), hold))
}
