// Package job runs a command under a lock. Its supervisor forwards signals, shares
// the terminal as a shell does (Ctrl-Z is in suspend.go), and ends the command when
// the lock is lost.
package job

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync/atomic"
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

// Run acquires the locks, runs the command under them, and releases them once the command
// has ended, whatever happens to the locks in between.
func (j *Job) Run(ctx context.Context) error {
	process.OutlivePipes() // the lock and the command do not depend on who reads stderr
	signals, stop := process.Signals()
	defer stop()
	g, err := j.startGuard()
	if err != nil {
		return err
	}
	defer g.Close()
	j.Runs = true
	var running atomic.Pointer[locks] // nil: not all are acquired
	l, err := j.Await(ctx, signals, &holdfast.Options{Trace: &holdfast.Trace{
		Renewed: func(_ context.Context, info holdfast.CallInfo) {
			j.failed.Store(&info.Err)
			if held := running.Load(); info.Err == nil && held != nil {
				held.extend(g)
			}
		},
	}})
	if err != nil {
		return err
	}
	held := locks(l.Holds)
	running.Store(&held)
	granted := guard.Now()
	j.SayReach()
	defer j.Hooks.begin(signals, g.Spare)()
	j.Hooks.acquired(j.description(held))

	tty := terminal.Open()
	defer tty.Close()
	s := supervisor{Job: j, guard: g, tty: tty, locks: held, granted: granted}
	if err := s.start(); err != nil {
		_ = l.Release() // if that fails, the locks end by themselves; nothing ran under them
		return j.notStarted(held, err)
	}
	result := s.supervise(signals)
	ended := time.Now()
	if result.Fell && !guard.Finds() {
		j.lengthen(held, j.atLeast-(guard.Now()-granted))
		return j.abandoned(held) // without a release
	}
	if s.lost && !j.lenient {
		lost := held.lost() // before the release of the others
		why := j.lossOf(lost)
		_ = l.Release() // a lock may still be there: the command is ended before its deadline
		output.Record("lost", acquire.LockAttrs(lost), "the lock of %q was lost: %v", lost.Resource(), why)
		j.Hooks.loss(why, j.description(held))
		return j.loss(lost, why, result, s.main != nil && !s.main.Cut)
	}
	j.giveBack(l, j.atLeast-(guard.Now()-granted))
	if !result.Fell {
		j.sayLeft(g, ended)
	}
	if s.overtime && result.Cut {
		return exit.Errorf(exit.Overtime, "%q ran longer than --max-runtime %v, and has ended with status %d", j.Command[0], j.most, result.Status())
	}
	return j.ended(result, s.lost)
}

// goneSoon is how long processes that are about to end may outlive a command.
const goneSoon = 100 * time.Millisecond

// sayLeft names what lives on after the command and its lock.
func (j *Job) sayLeft(g *guard.Guard, ended time.Time) {
	if g.Living(false) == "" {
		return
	}
	time.Sleep(goneSoon - time.Since(ended))
	if living := g.Living(false); living != "" {
		j.Inform("%q has ended, and what it has left runs on without the lock of %s: %s", j.Command[0], j.Names(), living)
	}
}

// giveBack releases the locks, or lets them end after the rest of --at-least. The
// command did its work under them, so a failure here is only a warning.
func (j *Job) giveBack(l acquire.Lease, rest time.Duration) {
	if rest >= time.Millisecond && locks(l.Holds).left() > 0 {
		j.keepFor(l, rest)
		return
	}
	err := l.Release()
	if err == nil || errors.Is(err, holdfast.ErrLost) {
		return // a lock ended by itself, after the command
	}
	output.Say("%q has ended, but its lock of %s could not be released: %s. It ends by itself within %v",
		j.Command[0], j.Names(), output.Reason(err), j.TTL)
}

// keepFor keeps the resources locked for the rest of the time.
func (j *Job) keepFor(l acquire.Lease, rest time.Duration) {
	until := time.Now().Add(rest)
	ctx, cancel := context.WithTimeout(context.Background(), j.TTL)
	defer cancel()
	defer l.Client.Close()
	var told []func() // once all is done
	for _, h := range l.Holds {
		told = append(told, j.keep(ctx, h, until)...)
	}
	for _, tell := range told {
		tell()
	}
}

// lengthen makes the locks last for the rest of the time, without a release. What cannot be
// renewed ends earlier.
func (j *Job) lengthen(held locks, rest time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), j.TTL)
	defer cancel()
	for _, h := range held {
		if rest > h.Left() {
			_ = h.Renew(ctx, max(rest, holdfast.MinTTL))
		}
	}
}

// keep keeps one resource locked, and returns what tells of it. A delayed release never makes
// a lease longer, so keep renews a short one first.
func (j *Job) keep(ctx context.Context, h *holdfast.Hold, until time.Time) (told []func()) {
	say := func(format string, args ...any) {
		told = append(told, func() { output.Say("%q has ended, but "+format, append([]any{j.Command[0]}, args...)...) })
	}
	if rest := time.Until(until); h.Left() < rest {
		if err := h.Renew(ctx, max(rest, holdfast.MinTTL)); err != nil {
			say("its lock of %q could not be kept for %v more: %s", h.Resource(), rest.Round(time.Second), output.Reason(err))
		}
	}
	if err := h.UnlockAfter(ctx, max(time.Until(until), 0)); err != nil {
		say("the end of its lock of %q could not be set: %s. It ends by itself", h.Resource(), output.Reason(err))
		return told
	}
	return append(told, func() { j.Inform("%q stays locked until %s", h.Resource(), output.TimeOfDay(until, time.Until(until))) })
}

// environment returns the environment of the command: this process's, what describes the
// locks, and what marks the command's processes.
func (j *Job) environment(held locks) []string {
	return append(j.description(held),
		env.LockIDVariable+"="+held[0].LockID(),
		env.HeldVariable+"="+env.Held(held[0].LockID(), j.Resources))
}

// description returns this process's environment and the variables that describe the
// locks. Those of one lock are empty if there are several.
func (j *Job) description(held locks) []string {
	resource, token := "", ""
	if len(held) == 1 {
		resource, token = held[0].Resource(), strconv.FormatUint(held[0].Token(), 10)
	}
	return append(os.Environ(),
		"HOLDFAST_RESOURCE="+resource,
		"HOLDFAST_TOKEN="+token,
		"HOLDFAST_TOKENS="+held.tokens())
}
