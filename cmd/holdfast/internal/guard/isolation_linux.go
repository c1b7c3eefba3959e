package guard

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// Start starts a guard, whose command is isolated if that is set. Call it before a lock is
// acquired: if it fails, no lock is held yet. The guard ends with this process, or when it
// is closed.
func Start(isolate bool) (*Guard, error) {
	if isolate {
		return startInPIDs()
	}
	return start(false, nil)
}

// startInPIDs starts a guard that is the first process of a PID namespace, with a /proc of
// its own. Where only root may have that, it is in a user namespace, too, in which nobody but
// this process's user is known.
func startInPIDs() (*Guard, error) {
	const space = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	g, err := start(true, &syscall.SysProcAttr{Setpgid: true, Cloneflags: space})
	if err != nil {
		g, err = start(true, &syscall.SysProcAttr{
			Setpgid: true, Cloneflags: space | unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}, // to mount /proc; a user other than root would lose it
		})
	}
	if err != nil {
		return nil, fmt.Errorf("no PID namespace for the command: %w", err)
	}
	switch r, open := <-g.reports; {
	case !open:
		err = ErrFell
	case r.Failed != 0:
		err = fmt.Errorf("its /proc cannot be mounted: %w", r.Failed)
	default:
		return g, nil
	}
	g.Close()
	return nil, fmt.Errorf("no PID namespace for the command: %w", err)
}

// namespace is the PID namespace whose first process this is.
type namespace struct {
	outer *os.Root // the /proc of the program that has started this process
}

// enterNamespace mounts the /proc of the namespace, for this process and its descendants
// only. Other mounts go on to be seen on both sides.
func enterNamespace() (*namespace, error) {
	outer, err := os.OpenRoot("/proc")
	if err != nil {
		return nil, err
	}
	_ = unix.Mount("", "/proc", "", unix.MS_PRIVATE, "") // fails if it is a folder of another mount
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, err
	}
	// The command, which this thread starts, does not get what the mount needed.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return nil, err
	}
	return &namespace{outer}, nil
}

// kill sends KILL to all other processes of the namespace. It needs no /proc, which the
// command may have covered.
func (n *namespace) kill() {
	if n != nil {
		_ = syscall.Kill(-1, syscall.SIGKILL) // as the first process, which it does not reach
	}
}

// outside returns the number that a child of this process has outside.
func (n *namespace) outside(pid int) (int, error) {
	if n == nil {
		return pid, nil
	}
	self, err := n.outer.Readlink("self")
	if err != nil {
		return 0, err
	}
	for _, number := range n.children(self) {
		status, _ := n.outer.ReadFile(number + "/status")
		numbers := strings.Fields(proc.Field(status, "NSpid")) // the last one is that in this namespace
		if proc.Field(status, "PPid") == self && len(numbers) > 0 && numbers[len(numbers)-1] == strconv.Itoa(pid) {
			return strconv.Atoi(number)
		}
	}
	return 0, syscall.ESRCH
}

// children returns the outer numbers of this process's children or, if the kernel does not
// list them, of all processes.
func (n *namespace) children(self string) (numbers []string) {
	if numbers = proc.ChildrenIn(n.outer.FS(), self); len(numbers) > 0 {
		return numbers
	}
	all, _ := fs.ReadDir(n.outer.FS(), ".")
	for _, entry := range all {
		if _, err := strconv.Atoi(entry.Name()); err == nil {
			numbers = append(numbers, entry.Name())
		}
	}
	return numbers
}
