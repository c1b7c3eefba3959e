package guard

import (
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

const clock = unix.CLOCK_BOOTTIME

// adoptOrphans makes this process the parent of its orphaned descendants, so that
// they stay its descendants. It reports whether that works: it does since Linux 3.4.
func adoptOrphans() bool {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
}

// rename changes the name of this process for ps and pkill.
func rename(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// wakeWithoutParent lets the kernel continue this process when its parent dies. It does so
// for orphaned process groups, but only if all threads have stopped by then.
func wakeWithoutParent() { _ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGCONT), 0, 0, 0) }

// dieWithParent lets the kernel kill the process when its parent dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// known reports whether descendants can be found.
func known() bool { return proc.Known() }

// signalTree sends the signal to the process group, if it is known (not 0), and to the
// descendants of this process that are not in it.
func signalTree(group int, sig syscall.Signal) {
	if group != 0 { // 0 would be this process's own group
		_ = syscall.Kill(-group, sig) // fails if the group has no member left
	}
	signalBelow(os.Getpid(), group, sig)
}

// signalBelow sends the signal to the descendants of the process that are not in the group.
func signalBelow(root, group int, sig syscall.Signal) {
	for p := range proc.Descendants(root, spared(sig)) {
		if group == 0 || p.Group != group {
			_ = p.Signal(sig) // fails if it has just ended, or is another user's
		}
	}
}

// spared reports what the signal does not go below: a nested run passes on what it gets
// itself. KILL is for all.
func spared(sig syscall.Signal) func(proc.Process) bool {
	if sig == syscall.SIGKILL {
		return nil
	}
	return func(p proc.Process) bool { return p.Name == name }
}

// signalRest sends the signal to what the lock waits for once the main process has ended,
// except to those that have had it.
func (p *process) signalRest(sig syscall.Signal, had map[member]bool) {
	if !known() && len(had) == 0 {
		signalTree(p.group, sig)
	}
	for d := range proc.Descendants(os.Getpid(), spared(sig)) {
		if p.isRest(d) && !had[d.ID()] {
			_ = d.Signal(sig) // fails if it has just ended, or is another user's
		}
	}
}

type member = proc.ID

// members returns the members of the command's group.
func (p *process) members() map[member]bool {
	all := make(map[member]bool)
	for _, m := range proc.Members(p.group) {
		all[m.ID()] = true
	}
	return all
}

// isRest reports whether the lock waits for the process. One in another session than the main
// process, which is this one's, is detached: a service.
func (p *process) isRest(d proc.Process) bool {
	return p.children == WaitAll || d.Session() == p.session
}

// restLives reports whether anything lives that the lock waits for. The first look is cheap.
// A process that ends while it is looked at has no session: it may have forked, so another
// look decides. So does one that finds nobody, while this process has children.
func (p *process) restLives() bool {
	switch {
	case p.alone:
		return false
	case !known():
		return p.children == WaitAll || syscall.Kill(-p.group, 0) == nil
	}
	mayBeRest := func(d proc.Process) bool { return p.isRest(d) || d.Session() == 0 }
	if slices.ContainsFunc(proc.Children(os.Getpid()), mayBeRest) {
		return true
	}
	all := slices.Collect(proc.Descendants(os.Getpid(), nil))
	return len(all) == 0 || slices.ContainsFunc(all, mayBeRest)
}

// living returns what lives of the command or, if only is set, what the lock waits for.
func (p *process) living(only bool) *Living {
	l := &Living{}
	if p.alone {
		return l
	}
	for _, d := range proc.Children(os.Getpid()) {
		if only && !p.isRest(d) || d.Name == name {
			continue // a nested guard ends with its run
		}
		if l.Count++; l.Count <= mostNamed {
			l.First = append(l.First, Named{d.PID, d.Name})
		}
	}
	return l
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

// killLeft kills what this program has adopted of a guard that has ended, and reports whether
// there was any.
func (o others) killLeft(int) (found bool) {
	for p := range proc.Descendants(os.Getpid(), o.has) {
		if !o.has(p) {
			_ = p.Signal(syscall.SIGKILL) // fails if it has just ended, or is another user's
		}
	}
	for _, p := range proc.Own() {
		if !o.has(p) {
			found = true
			_, _ = syscall.Wait4(p.PID, nil, syscall.WNOHANG, nil)
		}
	}
	return found
}

// treeLives reports whether a process of the command is alive: each has an ancestor among
// this process's children.
func (p *process) treeLives() bool { return !p.alone }

// memoryFile returns a file with that content, to be read, which is on no disk. Old kernels
// and some sandboxes have none.
func memoryFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "input")
	if _, err = f.Write(content); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
