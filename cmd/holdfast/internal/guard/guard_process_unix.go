//go:build unix

package guard

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// name is the name of guards. It is not the program's: a user who kills all
// processes by the program's name spares the guards, which clean up.
const name = "holdguard"

// A guard is this program under the name above. It needs little of the program, so
// it starts in an init function: to wait until stores and terminals are initialized
// would double the time that it takes to start.
func init() {
	if len(os.Args) == 2 && os.Args[0] == name {
		serve()
		os.Exit(0)
	}
}

// serve returns when the guard's work is done.
func serve() {
	// The kernel kills the command when the thread that started it ends. That has to
	// be this thread, which does nothing else: to start a program takes as long as its
	// file system, or who scans its files, takes to open it.
	runtime.LockOSThread()
	i, err := parseInherited(os.Args[1])
	if err != nil {
		return
	}
	syscall.CloseOnExec(i.socket)
	catchSignals()
	rename(name)
	wakeWithoutParent()
	starts := make(chan *launch)
	p := process{starts: starts, started: make(chan started, 1), states: make(chan state), adopts: adoptOrphans()}
	socket := os.NewFile(uintptr(i.socket), "socket")
	p.reports.to = json.NewEncoder(socket)
	if i.inNamespace {
		p.namespace, err = enterNamespace()
		errno, _ := errors.AsType[syscall.Errno](err)
		_ = p.reports.to.Encode(report{Failed: errno}) // the program waits for it
		if err != nil {
			return
		}
	}
	if i.cgroup >= 0 {
		syscall.CloseOnExec(i.cgroup)
		p.cgroup = cgroupOf(i.cgroup)
	}
	orders := make(chan order)
	go receive(socket, orders)
	p.orders = orders
	over := make(chan struct{})
	go func() {
		defer close(over)
		p.serve()
	}()
	for {
		select {
		case l := <-starts:
			pid, err := startCommand(l, p.cgroup)
			p.started <- started{pid, err}
		case <-over:
			return
		}
	}
}

// catchSignals makes signals have no effect on the guard, which ends after its
// command. It catches them, so that they have their defaults in the command. HUP and
// INT that are ignored already stay ignored, in the command too; for other signals
// the runtime of Go does not keep that.
func catchSignals() {
	unheard := make(chan os.Signal, 1) // nobody receives, so signals are dropped
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

// process is the guard process of one command.
type process struct {
	orders    <-chan order // closed when the program is gone
	reports   outbox[report]
	starts    chan<- *launch
	started   chan started
	starting  *launch    // it has not started yet; nil: none
	states    chan state // of the command
	schedule  schedule
	group     int // the command's process group, and its process ID; 0: none yet
	killed    bool
	pause     time.Duration // between looks at the rest of the tree
	spent     time.Duration // on the last of them
	ended     *Result       // how the command ended; its descendants may be alive
	alone     bool          // this process has no children left
	orphaned  bool          // the program is gone
	adopts    bool          // a process of the command that loses its parent becomes a child of this one
	over      bool          // nothing is left to do but to wait for the program
	done      bool          // the program needs nothing any more
	lookout   lookout
	cgroup    *cgroup    // of the command; nil: none
	namespace *namespace // nil: this process is not the first of one
	marks     []string
	successor *Successor
}

// started is what became of a launch.
type started struct {
	pid int
	err error
}

// state is news from the kernel: the command was stopped, was continued or has
// ended, or, if all fields are zero, there are no children left.
type state struct {
	stopped   syscall.Signal
	continued bool
	ended     *syscall.WaitStatus
}

func (p *process) serve() {
	defer p.cgroup.remove() // of a command that was not started
	for {
		wait := never
		switch {
		case p.over && p.done:
			return
		case p.over && p.orphaned:
			p.bequeath()
			return
		case p.idle() && (p.done || p.orphaned):
			return
		case !p.idle() && !p.over:
			if p.over = p.finished(); p.over {
				continue
			}
			wait = p.act()
		}
		select {
		case o, open := <-p.orders:
			if !open {
				p.orders, p.orphaned = nil, true
				if !p.schedule.lenient && !p.over && !p.idle() {
					p.kill()
				}
				continue
			}
			p.handle(o)
		case s := <-p.started:
			p.begun(s)
		case s := <-p.states:
			p.note(s)
		case <-after(wait):
		}
	}
}

// idle reports whether no command was started, and none is being started.
func (p *process) idle() bool { return p.group == 0 && p.starting == nil }

// after is time.After, but fires after a second at the latest: a timer does not count
// the time that the machine sleeps, so the caller looks at the clock again.
func after(d time.Duration) <-chan time.Time {
	if d == never {
		return nil
	}
	return time.After(min(d, time.Second))
}

func (p *process) handle(o order) {
	switch {
	case o.Done:
		p.done = true
	case p.over:
		// It has come too late.
	case o.Run != nil:
		p.launch(o.Run)
	case p.idle():
		// The command was not started.
	case o.Deadline != 0:
		p.schedule.extend(o.Deadline)
		p.lookout.soon()
	case o.End:
		if p.schedule.end(Now()) {
			p.signal(syscall.SIGTERM)
		}
	case o.Kill:
		p.kill()
	case o.Signal != 0 && p.ended == nil && p.group != 0:
		_ = syscall.Kill(-p.group, o.Signal) // fails only if the command has just ended
	}
}

// act does what is due, and returns how long to wait until it is called again.
func (p *process) act() time.Duration {
	now := Now()
	do, at := p.schedule.next(now)
	switch do {
	case ask:
		p.signal(syscall.SIGTERM)
	case kill:
		p.kill()
	}
	found, wait := p.lookout.look(now)
	for _, b := range found {
		p.report(report{Unkillable: &b})
	}
	if at != never {
		wait = min(wait, max(at-now, 0))
	}
	if p.killed || p.ended != nil {
		// There is no event for the end of the last descendant, so look again until
		// then, and kill processes that were just being started. The pause grows,
		// because a process that waits for a disk cannot be killed yet, and looking
		// must not use a whole core, however many processes there are.
		p.pause = max(longer(p.pause), time.Millisecond, 10*p.spent)
		wait = min(wait, p.pause)
		if p.killed {
			wait = p.pause
		}
	}
	return wait
}

func (p *process) kill() {
	p.schedule.end(Now())
	p.schedule.killAt = 0
	p.killed = true
	began := Now()
	p.cgroup.kill()
	p.namespace.kill()
	p.signal(syscall.SIGKILL)
	p.spent = Now() - began
	p.lookout.soon()
}

// signal sends the signal to all processes of the command.
func (p *process) signal(sig syscall.Signal) {
	group := p.group
	if p.ended != nil && known() {
		group = 0 // its number may be another's by now, and its members are descendants
	}
	signalTree(group, sig)
}

// finished reports whether nothing is left to do, and if so reports how the command
// ended. If the command ended by itself, its descendants live on: it may have
// started a service. If the guard ended it, or if it is isolated, they do not.
func (p *process) finished() bool {
	if p.ended == nil || p.schedule.asked && (p.treeLives() || p.cgroup.lives()) {
		return false
	}
	p.cgroup.remove()
	p.report(report{Ended: p.ended})
	return true
}

func (p *process) note(s state) {
	switch {
	case s.stopped != 0 || s.continued:
		p.report(report{Stopped: s.stopped, Continued: s.continued})
	case s.ended == nil:
		p.alone = true
	default:
		p.ended = &Result{Cut: p.schedule.cut(Now())}
		if s.ended.Signaled() {
			p.ended.Signal = s.ended.Signal()
		} else {
			p.ended.Code = s.ended.ExitStatus()
		}
		if p.ended.Cut && !p.schedule.asked || p.isolated() {
			// The deadline has passed while this process stood still, or nothing is to
			// outlive the command.
			p.kill()
		}
	}
}

func (p *process) isolated() bool { return p.namespace != nil || p.cgroup != nil }

func (p *process) report(r report) {
	if !p.orphaned {
		p.reports.send(r)
	}
}

// bequeath starts the successor in place of this process. If the command was ended, that
// needs certainty: nothing of it may live that this process has not adopted.
func (p *process) bequeath() {
	if p.successor == nil || !p.adopts || p.schedule.asked && marked(p.marks) {
		return
	}
	_ = p.successor.succeed() // if it fails, there is nobody to tell
}

func (p *process) launch(l *launch) {
	p.marks, p.successor = l.Marks, l.Successor
	p.schedule = schedule{killAfter: l.KillAfter, deadline: l.Deadline, lenient: l.Lenient}
	if p.schedule.cut(Now()) {
		// The program may have stood still since its lock was granted.
		p.report(report{Late: true})
		return
	}
	p.starting = l
	p.starts <- l
}

// begun notes what became of the launch. If its time ran out before, it is over already:
// what has not become the command yet was killed as this process's child.
func (p *process) begun(s started) {
	l := p.starting
	p.starting = nil
	if s.err != nil {
		errno, ok := errors.AsType[syscall.Errno](s.err)
		if !ok {
			errno = syscall.EINVAL // there is a NUL in a path or an argument
		}
		p.report(report{Failed: errno})
		return
	}
	outside, err := p.namespace.outside(s.pid)
	if err != nil { // the program could not signal it
		_ = syscall.Kill(s.pid, syscall.SIGKILL)
		p.report(report{Failed: syscall.ESRCH})
		return
	}
	p.group = s.pid
	if !l.Lenient && p.namespace == nil { // whose end ends processes of all users
		p.lookout.begin(p.cgroup)
	}
	go p.reap()
	p.report(report{Started: outside})
}

func startCommand(l *launch, c *cgroup) (pid int, err error) {
	env := (&exec.Cmd{Env: stringsOf(l.Env)}).Environ() // each variable once
	attr := &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	c.join(attr.Sys)
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

// reap waits for the guard's children, the command and its orphans, for as long as
// there are any.
func (p *process) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED|syscall.WCONTINUED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			p.states <- state{}
			return
		case pid != p.group:
		case status.Stopped():
			p.states <- state{stopped: status.StopSignal()}
		case status.Continued():
			p.states <- state{continued: true}
		default:
			p.states <- state{ended: &status}
		}
	}
}
