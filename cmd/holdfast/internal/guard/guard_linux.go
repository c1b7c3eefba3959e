package guard

import (
	"io"
	"os"
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

// signalBelow sends the signal to the descendants of the process that are not in
// the group.
func signalBelow(root, group int, sig syscall.Signal) {
	for p := range proc.Descendants(root) {
		if group == 0 || p.Group != group {
			_ = p.Signal(sig) // fails if it has just ended, or is another user's
		}
	}
	if root == os.Getpid() {
		proc.SignalHidden(sig)
	}
}

// killStrays kills the members of the group and the marked processes, and reports
// whether it found any.
func killStrays(group int, marks []string) bool {
	found := proc.Marked(marks)
	if group != 0 {
		found = append(found, proc.Members(group)...)
	}
	for _, p := range found {
		_ = p.Signal(syscall.SIGKILL)
	}
	return len(found) > 0
}

// marked reports whether there is a marked process.
func marked(marks []string) bool { return len(proc.Marked(marks)) > 0 }

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
