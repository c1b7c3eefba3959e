package guard

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clock counts the time that the machine sleeps on macOS.
const clock = unix.CLOCK_MONOTONIC

// Start starts a guard. Call it before a lock is acquired: if it fails, no lock is held
// yet. The guard ends with this process, or when it is closed.
func Start(isolate bool) (*Guard, error) {
	if isolate {
		return nil, errors.New("it needs Linux")
	}
	return start(false, nil)
}

// namespace is not here.
type namespace struct{}

func enterNamespace() (*namespace, error) { return nil, syscall.ENOSYS }

func (*namespace) kill() {}

func (*namespace) outside(pid int) (int, error) { return pid, nil }

func memoryFile([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }

func adoptOrphans() bool { return false }

func rename(string) {}

func wakeWithoutParent() {}

func dieWithParent(*syscall.SysProcAttr) {}

func known() bool { return false }

// signalTree sends the signal to the process group, if it is known (not 0). Processes
// that have left the group are not found.
func signalTree(group int, sig syscall.Signal) {
	if group != 0 { // 0 would be this process's own group
		_ = syscall.Kill(-group, sig)
	}
}

func (p *process) treeLives() bool { return treeLives(p.group) }

// treeLives reports whether the process group has a member, if it is known and not 0.
func treeLives(group int) bool { return group != 0 && syscall.Kill(-group, 0) == nil }

// signalRest sends the signal to the rest of the command's group, unless that has had it.
func (p *process) signalRest(sig syscall.Signal, had map[member]bool) {
	if len(had) == 0 {
		signalTree(p.group, sig)
	}
}

type member int

// members returns that the group has members.
func (p *process) members() map[member]bool { return map[member]bool{member(p.group): true} }

func (p *process) restLives() bool { return p.treeLives() }

// living returns that something lives, without a name.
func (p *process) living(bool) *Living {
	l := &Living{}
	if p.treeLives() {
		l.Count = 1
	}
	return l
}

// others are of no use: this program adopts nobody.
type others struct{}

func present() (none others) { return none }

func (others) add(int) {}

// killLeft kills the members of the group, and reports whether there are any.
func (others) killLeft(group int) bool {
	signalTree(group, syscall.SIGKILL)
	return treeLives(group)
}

// signalBelow does nothing: the descendants of another process cannot be found.
func signalBelow(int, int, syscall.Signal) {}

// lookout does nothing: the descendants of another process cannot be found.
type lookout struct{}

func (*lookout) begin() {}

func (*lookout) soon() {}

func (*lookout) look(time.Duration) ([]Unkillable, time.Duration) { return nil, never }
