//go:build unix && !linux

package guard

import (
	"errors"
	"syscall"
)

// Isolations are those that may be possible here.
var Isolations = []Isolation{Auto}

// Start starts a guard. Call it before a lock is acquired: if it fails, no lock is held
// yet. The guard ends with this process, or when it is closed.
func Start(i Isolation) (*Guard, error) {
	if i != NotIsolated {
		return nil, errors.New("it needs Linux")
	}
	return start(nil, false, nil)
}

// namespace and cgroup are not here.
type namespace struct{}

func enterNamespace() (*namespace, error) { return nil, syscall.ENOSYS }

func (*namespace) kill() {}

func (*namespace) outside(pid int) (int, error) { return pid, nil }

type cgroup struct{ path string }

func cgroupOf(int) *cgroup { return nil }

func (*cgroup) descriptor() int { return -1 }

func (*cgroup) join(*syscall.SysProcAttr) {}

func (*cgroup) sweep() {}

func (*cgroup) kill() {}

func (*cgroup) lives() bool { return false }

func (*cgroup) remove() {}
