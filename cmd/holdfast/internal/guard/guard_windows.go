package guard

import (
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var started = time.Now()

// Now reads the clock of deadlines.
func Now() time.Duration { return time.Since(started) }

// Guard is a job object with this program and its command. The kernel ends it with
// the program.
type Guard struct {
	job    windows.Handle
	events chan Event
	orders chan func(*schedule)
	kept   chan struct{} // closed when the command has ended
	once   sync.Once
}

// Start puts this program into a job object. Call it before a lock is acquired: if it
// fails, no lock is held yet.
func Start(isolate bool) (*Guard, error) {
	if isolate {
		return nil, errors.New("it needs Linux; here a job object ends all with the lock, and all may outlive the command")
	}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateJobObject", err)
	}
	g := &Guard{job: job, events: make(chan Event), orders: make(chan func(*schedule)), kept: make(chan struct{})}
	if err := g.killOnClose(true); err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	if err := windows.AssignProcessToJobObject(job, windows.CurrentProcess()); err != nil {
		_ = windows.CloseHandle(job)
		return nil, os.NewSyscallError("AssignProcessToJobObject", err)
	}
	return g, nil
}

func (g *Guard) killOnClose(on bool) error {
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if on {
		info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	}
	_, err := windows.SetInformationJobObject(g.job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return os.NewSyscallError("SetInformationJobObject", err)
}

// Run starts the command in the job object. It may be called once. The error is
// ErrLate or the system's.
func (g *Guard) Run(c Command) error {
	s := &schedule{killAfter: c.KillAfter, deadline: c.Deadline, lenient: c.Lenient}
	if s.late(Now()) {
		return ErrLate
	}
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Env: c.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	ended := make(chan int, 1)
	go func() {
		code := -1
		if state, err := p.Wait(); err == nil {
			code = state.ExitCode()
		}
		ended <- code
	}()
	if c.Lenient {
		_ = g.killOnClose(false) // else the command would not outlive the program
	}
	go g.keep(s, ended)
	return nil
}

// keep follows the schedule until the command has ended and, if the guard has ended
// it, all other processes of the job, too.
func (g *Guard) keep(s *schedule, ended <-chan int) {
	defer close(g.kept)
	for {
		do, at := s.next(Now())
		if do == kill || s.asked { // Windows has no way to ask a program to end
			g.killOthers()
		}
		wait := min(at-Now(), time.Second)
		if s.asked {
			wait = 10 * time.Millisecond
		}
		select {
		case change := <-g.orders:
			change(s)
		case code := <-ended:
			for s.asked && g.killOthers() {
				time.Sleep(10 * time.Millisecond)
			}
			g.events <- Event{Ended: &Result{Code: code, Cut: s.asked || s.late(Now())}}
			return
		case <-time.After(max(wait, 0)):
		}
	}
}

// killOthers ends all processes of the job except this one, and reports whether
// there were any.
func (g *Guard) killOthers() bool {
	others := slices.DeleteFunc(g.members(), func(pid uint32) bool { return pid == windows.GetCurrentProcessId() })
	for _, pid := range others {
		if h, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, pid); err == nil {
			_ = windows.TerminateProcess(h, 1) // fails if the process has just ended
			_ = windows.CloseHandle(h)
		}
	}
	return len(others) > 0
}

func (g *Guard) members() []uint32 {
	const most = 4096 // the next call finds the rest
	var list struct {
		assigned, listed uint32
		pids             [most]uintptr
	}
	const basicProcessIDList = 3 // JobObjectBasicProcessIdList of winnt.h
	err := windows.QueryInformationJobObject(g.job, basicProcessIDList,
		uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil && err != windows.ERROR_MORE_DATA { //nolint:errorlint // an Errno as it is
		return nil
	}
	pids := make([]uint32, 0, list.listed)
	for _, pid := range list.pids[:min(list.listed, most)] {
		pids = append(pids, uint32(pid))
	}
	return pids
}

// Group returns 0: there are no process groups here.
func (g *Guard) Group() int { return 0 }

// Events returns the channel of what happens to the command after Run. The caller
// has to receive: nothing is dropped. The channel is never closed.
func (g *Guard) Events() <-chan Event { return g.events }

// Extend moves the deadline, on the clock of Now.
func (g *Guard) Extend(deadline time.Duration) { g.order(func(s *schedule) { s.extend(deadline) }) }

// End kills the command: there is no way to ask it.
func (g *Guard) End() { g.order(func(s *schedule) { s.end(Now()) }) }

// Kill ends the command and all its descendants now.
func (g *Guard) Kill() { g.End() }

// Signal kills the command on TERM. The console itself tells the command of an
// interrupt.
func (g *Guard) Signal(sig syscall.Signal) {
	if sig == syscall.SIGTERM {
		g.Kill()
	}
}

// SignalGroup is Signal.
func (g *Guard) SignalGroup(sig syscall.Signal) { g.Signal(sig) }

// Noted does nothing.
func (g *Guard) Noted(syscall.Signal) {}

// Living returns that nothing lives, because nothing is told.
func (g *Guard) Living() Living { return Living{} }

func (g *Guard) order(change func(*schedule)) {
	select {
	case g.orders <- change:
	case <-g.kept:
	}
}

// Strays reports that none of the command's processes can be anywhere else than in the job
// object.
func (g *Guard) Strays() bool { return false }

// Close lets what the command has left behind live on: it may be a service.
func (g *Guard) Close() { g.once.Do(func() { _ = g.killOnClose(false) }) }
