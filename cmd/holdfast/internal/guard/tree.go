package guard

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// This file has what finds processes. Where none can be found, as on macOS, the command is its
// process group.

// Finds reports whether all processes of a command are found, also those that a killed guard
// leaves behind.
func Finds() bool { return proc.Known() }

// signalTree sends the signal to the process group, if it is known (not 0), and to the
// descendants of the root that are not in it. It returns these.
func signalTree(root, group int, sig syscall.Signal) (found []proc.ID) {
	if group != 0 { // 0 would be this process's own group
		_ = syscall.Kill(-group, sig) // fails if the group has no member left
	}
	for p := range proc.Descendants(root, spared(sig)) {
		if group == 0 || p.Group != group {
			_ = p.Signal(sig) // fails if it has just ended, or is another user's
			found = append(found, p.ID())
		}
	}
	return found
}

// groupLives reports whether the process group has a member, if it is known (not 0).
func groupLives(group int) bool { return group != 0 && syscall.Kill(-group, 0) == nil }

// spared reports what the signal does not go below: a nested run passes on what it gets
// itself. KILL is for all.
func spared(sig syscall.Signal) func(proc.Process) bool {
	if sig == syscall.SIGKILL {
		return nil
	}
	return func(p proc.Process) bool { return p.Name == name }
}

// signalRest sends the signal to what the lock waits for once the main process has ended,
// except to those that have had it; nil stands for nobody. It returns those that it has found.
func (p *process) signalRest(sig syscall.Signal, had map[proc.ID]bool) (found []proc.ID) {
	if !Finds() && had == nil {
		signalTree(os.Getpid(), p.group, sig)
	}
	for d := range proc.Descendants(os.Getpid(), spared(sig)) {
		if p.command.Children.waitsFor(d) && !had[d.ID()] {
			_ = d.Signal(sig) // fails if it has just ended, or is another user's
			found = append(found, d.ID())
		}
	}
	return found
}

// members returns the members of the command's group.
func (p *process) members() map[proc.ID]bool {
	all := make(map[proc.ID]bool)
	for _, m := range proc.Members(p.group) {
		all[m.ID()] = true
	}
	return all
}

// waitsFor reports whether the lock waits for the process. One in another session than the main
// process, which is this one's, is detached: a service.
func (c Children) waitsFor(d proc.Process) bool {
	own, _ := unix.Getsid(0)
	return c != LeaveAll || d.Session() == own
}

// treeLives reports whether a process of the command is alive. If this process adopts, each has
// an ancestor among its children.
func (p *process) treeLives() bool { return !p.alone || !p.adopts && groupLives(p.group) }

// restLives reports whether anything lives that the lock waits for. The first look is cheap.
// A process that ends while it is looked at has no session: it may have forked, so another
// look decides. So does one that finds nobody, while this process has children.
func (p *process) restLives() bool {
	switch {
	case !p.treeLives():
		return false
	case !Finds():
		return p.command.Children == WaitAll || groupLives(p.group)
	}
	mayBeRest := func(d proc.Process) bool { return p.command.Children.waitsFor(d) || d.Session() == 0 }
	if slices.ContainsFunc(proc.Children(os.Getpid()), mayBeRest) {
		return true
	}
	all := slices.Collect(proc.Descendants(os.Getpid(), nil))
	return len(all) == 0 || slices.ContainsFunc(all, mayBeRest)
}

// mostNamed is how many processes Living names.
const mostNamed = 3

// Living tells what lives of a command whose main process has ended or, if rest is set, what of
// it the run waits for: how many processes, and the first three. It is empty if nothing does.
func (g *Guard) Living(rest bool) string {
	if !Finds() && groupLives(g.group) {
		return "a process"
	}
	var names []string
	for _, d := range proc.Children(g.pid) {
		if (!rest || g.children.waitsFor(d)) && d.Name != name { // a nested guard ends with its run
			names = append(names, fmt.Sprintf("%q (pid %d)", d.Name, d.PID))
		}
	}
	switch n := len(names); {
	case n == 0:
		return ""
	case n == 1:
		return "a process, " + names[0]
	case n > mostNamed:
		names = append(names[:mostNamed], "…")
		fallthrough
	default:
		return fmt.Sprintf("%d processes, %s", n, strings.Join(names, ", "))
	}
}

// others are children of this program that are not the guard: what a shell had started before
// it became this program (exec), and scripts that this program has started. Orphans of these
// are adopted, too, and cannot be told from the command's when the guard was killed: then they
// are killed, or the lock could not be released.
type others map[proc.ID]bool

// present returns the children of this program.
func present() others {
	o := make(others)
	for _, p := range proc.Own() {
		o[p.ID()] = true
	}
	return o
}

func (o others) add(pid int) {
	if p, ok := proc.Read(pid); ok {
		o[p.ID()] = true
	}
}

func (o others) has(p proc.Process) bool { return o[p.ID()] }

// reap waits for the adopted orphans that have ended, and reports whether there were any orphans.
func (o others) reap(guard int) (found bool) {
	for _, p := range proc.Own() {
		if p.PID != guard && !o.has(p) {
			found = true
			_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil)
		}
	}
	return found
}

// killLeft kills what this program has adopted of a guard that has ended or, if that cannot be
// found, the group, and reports whether there was any.
func (o others) killLeft(group int) bool {
	if !Finds() && groupLives(group) {
		_ = syscall.Kill(-group, syscall.SIGKILL)
		for pid := group; pid > 0; { // the dead are members until somebody waits for them
			pid, _ = syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		}
		return true
	}
	for p := range proc.Descendants(os.Getpid(), o.has) {
		if !o.has(p) {
			_ = p.Signal(syscall.SIGKILL) // fails if it has just ended, or is another user's
		}
	}
	return o.reap(0) // the guard was waited for
}
