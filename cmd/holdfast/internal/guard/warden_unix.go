//go:build unix

package guard

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// name is what a guard is called: not as the program, so that whoever kills all
// processes by the program's name leaves those that clean up after them.
const name = "holdguard"

// A guard is this program, called by its name. It needs little of it: it begins as
// soon as that is initialized, and does not wait for stores and terminals to be,
// which would double the time that it takes to start.
func init() {
	if len(os.Args) == 2 && os.Args[0] == name {
		serve()
		os.Exit(0)
	}
}

// serve returns when the guard has no more to do.
func serve() {
	// The kernel kills the command when the thread that started it ends: that has
	// to be this one, which stays.
	runtime.LockOSThread()
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	deafen()
	rename(name)
	adoptOrphans()
	socket := os.NewFile(uintptr(fd), "socket")
	orders := make(chan order)
	go receive(socket, orders)
	w := warden{orders: orders, reports: json.NewEncoder(socket), states: make(chan state)}
	w.serve()
}

// deafen makes signals have no effect on the guard: it ends when its command has.
// One that is ignored already stays so, for the command too, if it is HUP or INT:
// of others the runtime of Go forgets that. One that is heard is at its default in
// the command.
func deafen() {
	unheard := make(chan os.Signal, 1) // what nobody receives is dropped
	for n := syscall.Signal(1); n < 32; n++ {
		switch n {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG:
		default:
			if !signal.Ignored(n) {
				signal.Notify(unheard, n)
			}
		}
	}
}

// warden is the guard of one command.
type warden struct {
	orders   <-chan order // closed when the wrapper is no more
	reports  *json.Encoder
	states   chan state // of the command
	schedule schedule
	group    int // the command's process group, and its process ID; 0: none yet
	killed   bool
	pause    time.Duration // between looks at what is left of the tree
	ended    *Result       // how the command ended; others of its tree may live
	alone    bool          // this process has no children any more
	orphaned bool          // there is nobody to report to
}

// state is news from the kernel: the command was stopped, was continued or has
// ended, or there are no children any more.
type state struct {
	stopped   syscall.Signal
	continued bool
	ended     *syscall.WaitStatus
}

func (w *warden) serve() {
	for {
		wait := never
		if w.group != 0 {
			if w.finished() {
				return
			}
			wait = w.act()
		}
		select {
		case o, open := <-w.orders:
			if !open {
				w.orders, w.orphaned = nil, true
				if w.group == 0 {
					return
				}
				if !w.schedule.lenient {
					w.kill()
				}
				continue
			}
			w.obey(o)
		case s := <-w.states:
			w.note(s)
		case <-after(wait):
		}
	}
}

// after is time.After, but looks at the clock once a second: a timer does not
// count the time that the machine sleeps.
func after(d time.Duration) <-chan time.Time {
	if d == never {
		return nil
	}
	return time.After(min(d, time.Second))
}

func (w *warden) obey(o order) {
	switch {
	case o.Run != nil:
		w.launch(o.Run)
	case w.group == 0:
		// It could not be started, or has not been: nothing is to be done to it.
	case o.Deadline != 0:
		w.schedule.extend(o.Deadline)
	case o.End:
		if w.schedule.end(Now()) {
			signalTree(w.group, syscall.SIGTERM)
		}
	case o.Kill:
		w.kill()
	case o.Signal != 0 && w.ended == nil:
		_ = syscall.Kill(-w.group, o.Signal) // fails only if the command has just ended
	}
}

// act does what is due to the command and returns when to look again.
func (w *warden) act() time.Duration {
	now := Now()
	do, at := w.schedule.next(now)
	switch do {
	case ask:
		signalTree(w.group, syscall.SIGTERM)
	case kill:
		w.kill()
	}
	wait := never
	if at != never {
		wait = max(at-now, 0)
	}
	if w.killed || w.ended != nil {
		// Until all of the tree have gone, which nobody tells, look again and kill
		// what was just being started. What the kernel cannot kill yet, because it
		// waits for a disk, must not cost a core.
		w.pause = min(max(2*w.pause, time.Millisecond), 100*time.Millisecond)
		wait = min(wait, w.pause)
		if w.killed {
			wait = w.pause
		}
	}
	return wait
}

func (w *warden) kill() {
	w.schedule.end(Now())
	w.schedule.killAt = 0
	w.killed = true
	signalTree(w.group, syscall.SIGKILL)
}

// finished reports whether nothing is left to be done, and if so says how the
// command ended. What a command that ended by itself leaves behind may live on:
// it may have started a service. What one leaves that was made to end may not.
func (w *warden) finished() bool {
	if w.ended == nil || w.schedule.asked && w.treeLives() {
		return false
	}
	w.report(report{Ended: w.ended})
	return true
}

// treeLives reports whether a process of the command is alive. Where orphans are
// adopted, each has an ancestor among this process's children.
func (w *warden) treeLives() bool {
	if adopting {
		return !w.alone
	}
	return treeLives(w.group)
}

func (w *warden) note(s state) {
	switch {
	case s.stopped != 0 || s.continued:
		w.report(report{Stopped: s.stopped, Continued: s.continued})
	case s.ended == nil:
		w.alone = true
	default:
		w.ended = &Result{Cut: w.schedule.cut(Now())}
		if s.ended.Signaled() {
			w.ended.Signal = s.ended.Signal()
		} else {
			w.ended.Code = s.ended.ExitStatus()
		}
		if w.ended.Cut && !w.schedule.asked {
			// It is past the deadline, and this process has stood still till now.
			w.kill()
		}
	}
}

func (w *warden) report(r report) {
	if !w.orphaned {
		_ = w.reports.Encode(r) // fails only if the wrapper is no more, which orders tell too
	}
}

func (w *warden) launch(l *launch) {
	w.schedule = schedule{killAfter: l.KillAfter, deadline: l.Deadline, lenient: l.Lenient}
	if w.schedule.cut(Now()) {
		// Who sent this may have stood still since its lock was granted.
		w.report(report{Late: true})
		return
	}
	pid, err := start(l)
	if err != nil {
		errno, ok := errors.AsType[syscall.Errno](err)
		if !ok {
			errno = syscall.EINVAL // a NUL in a path or an argument
		}
		w.report(report{Failed: errno})
		return
	}
	w.group = pid
	go w.reap()
	w.report(report{Started: pid})
}

func start(l *launch) (pid int, err error) {
	env := (&exec.Cmd{Env: stringsOf(l.Env)}).Environ() // each variable once
	attr := &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if !l.Lenient {
		dieWithParent(attr.Sys)
	}
	if l.Foreground {
		if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
			defer tty.Close()
			attr.Sys.Foreground, attr.Sys.Ctty = true, int(tty.Fd())
		}
	}
	path, args := string(l.Path), stringsOf(l.Args)
	pid, err = syscall.ForkExec(path, args, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without a first line that names its interpreter.
		const shell = "/bin/sh"
		pid, err = syscall.ForkExec(shell, append([]string{shell, path}, args[1:]...), attr)
	}
	return pid, err
}

// reap waits for the guard's children, which are the command and the orphans that
// it left, for as long as there are any.
func (w *warden) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			w.states <- state{}
			return
		case pid != w.group:
		case status.Stopped():
			w.states <- state{stopped: status.StopSignal()}
		case status.Continued():
			w.states <- state{continued: true}
		default:
			w.states <- state{ended: &status}
		}
	}
}
