package guard

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// adopting says that this process can adopt orphaned descendants.
const adopting = true

// adoptOrphans makes this process the parent of its orphaned descendants, so that
// they stay its descendants.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // since Linux 3.4
}

// rename changes the name of this process for ps and pkill.
func rename(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// dieWithParent lets the kernel kill the process when its parent dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

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
	for _, p := range proc.Descendants(root) {
		if p.Group != group {
			_ = syscall.Kill(p.PID, sig) // fails if it has just ended
		}
	}
}

// treeLives reports whether a descendant of this process is alive. It looks twice: if a
// process ends during a look, its children become children of this process, whose list
// the look has read already. The second look finds them.
func treeLives(int) bool {
	for range 2 {
		if len(proc.Descendants(os.Getpid())) > 0 {
			return true
		}
	}
	return false
}
