package guard

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// startInPIDs starts a guard that is the first process of a PID namespace, with a /proc of
// its own. Where only root may have that, it is in a user namespace, too, in which nobody but
// this process's user is known.
func startInPIDs() (*Guard, error) {
	const space = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	g, err := start(&syscall.SysProcAttr{Setpgid: true, Cloneflags: space})
	if err != nil {
		g, err = start(&syscall.SysProcAttr{
			Setpgid: true, Cloneflags: space | unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}, // to mount /proc; a user other than root would lose it
		})
	}
	if err != nil {
		return nil, fmt.Errorf("no PID namespace for the command: %w", err)
	}
	g.isolated = true
	switch r, open := <-g.reports; {
	case !open:
		err = errors.New("the guard was killed")
	case r.Failed != 0:
		err = fmt.Errorf("its /proc cannot be mounted: %w", r.Failed)
	default:
		return g, nil
	}
	g.Close()
	return nil, fmt.Errorf("no PID namespace for the command: %w", err)
}

// isolated reports whether this process is the first of a PID namespace. A guard is that only
// in a namespace of its own.
func isolated() bool { return os.Getpid() == 1 }

// mountProc mounts the /proc of the namespace, for this process and its descendants
// only. Other mounts go on to be seen on both sides.
func mountProc() error {
	_ = unix.Mount("", "/proc", "", unix.MS_PRIVATE, "") // fails if it is a folder of another mount
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// dropAmbient takes from what this thread starts the rights that mountProc needed.
func dropAmbient() error {
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// outside returns the number that the guard's child with that number in a namespace has outside,
// or 0 if it has ended.
func outside(guard, pid int) int {
	for p := range proc.Descendants(guard, nil) {
		if numbers := p.Numbers(); p.Parent == guard && numbers[len(numbers)-1] == pid {
			return p.PID
		}
	}
	return 0
}
