package guard

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	signals "github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
)

// name is the name of guards. It is not the program's: a user who kills all
// processes by the program's name spares the guards, which clean up.
const name = "holdguard"

// A guard is this program under the name above. It needs little of the program, so
// it starts in an init function: to wait until stores and terminals are initialized
// would double the time that it takes to start.
func init() {
	switch {
	case os.Args[0] == setterName && len(os.Args) > setterArgs:
		setPIDs(os.Args[1], os.Args[2], os.Args[setterArgs:])
	case os.Args[0] == name && len(os.Args) == 2:
		serve()
		os.Exit(0)
	}
}

// serve returns when the guard's work is done.
func serve() {
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	catchSignals()
	rename(name)
	wakeWithoutParent()
	socket := os.NewFile(uintptr(fd), "socket")
	orders := make(chan order)
	p := process{
		orders: orders, reports: newOutbox[report](socket), started: make(chan started, 1),
		states: make(chan syscall.WaitStatus), adopts: adoptOrphans(), restKill: Never, killed: map[proc.ID]bool{},
	}
	if isolated() {
		err = mountProc()
		errno, _ := errors.AsType[syscall.Errno](err)
		_ = p.reports.to.Encode(report{Failed: errno}) // the program waits for it
		if err != nil {
			return
		}
	}
	go receive(socket, orders)
	p.serve()
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

// phase is how far a run is: see the package comment.
type phase int

const (
	waiting phase = iota
	running
	rest
	ending
	over
)

// process is the guard process of one command.
type process struct {
	orders   <-chan order // closed when the program is gone
	reports  *outbox[report]
	started  chan started
	states   chan syscall.WaitStatus // of the command; closed when this process has no children left
	phase    phase
	schedule schedule
	group    int              // the command's process group, and its process ID; 0: none yet
	main     *Result          // how the main process ended; its descendants may be alive
	cut      bool             // the program or the deadline has ended the command
	passed   syscall.Signal   // the last signal to end that the main process has had; 0: none
	had      map[proc.ID]bool // who has had it, too
	leaveAt  time.Duration    // when a rest that nobody waits for is left; 0: it is waited for
	asked    bool             // the rest was asked to end
	restKill time.Duration    // when the rest is killed
	killed   map[proc.ID]bool // those that were found to kill
	told     bool             // that the main process has ended
	pause    time.Duration    // between looks at the rest of the tree
	spent    time.Duration    // on the last of them
	alone    bool             // this process has no children left
	adopts   bool             // a process of the command that loses its parent becomes a child of this one
	done     bool             // the program needs nothing any more
	command  *Command         // nil: none yet
}

// orphaned reports whether the program is gone.
func (p *process) orphaned() bool { return p.orders == nil }

// idle reports whether there is no command, or no more.
func (p *process) idle() bool { return p.phase == waiting || p.phase == over }

// started is what became of a launch.
type started struct {
	pid int
	err error
}

func (p *process) serve() {
	for {
		wait := Never
		switch {
		case p.done && (p.idle() || p.phase == rest):
			return
		case p.orphaned() && p.phase == waiting:
			return
		case p.orphaned() && p.phase == over:
			p.bequeath()
			return
		case p.idle():
		case p.finish():
			continue
		default:
			wait = p.act()
		}
		select {
		case o, open := <-p.orders:
			if open {
				p.handle(o)
				continue
			}
			p.orders = nil
			if p.schedule.deadline != Never && !p.idle() {
				p.kill()
			}
		case s := <-p.started:
			p.begun(s)
		case s, more := <-p.states:
			if p.alone = !more; p.alone {
				p.states = nil
			} else {
				p.note(s)
			}
		case <-after(wait):
		}
	}
}

// after is time.After, but fires after a second at the latest: a timer does not count
// the time that the machine sleeps, so the caller looks at the clock again.
func after(d time.Duration) <-chan time.Time {
	if d == Never {
		return nil
	}
	return time.After(min(d, time.Second))
}

func (p *process) handle(o order) {
	switch {
	case o.Done:
		p.done = true
	case o.Run != nil:
		p.launch(o.Run.command())
	case p.idle():
		// The command was not started, or it has come too late.
	case o.Deadline != 0:
		p.schedule.extend(o.Deadline)
	case o.End:
		p.cut = true
		p.end()
	case o.Kill:
		p.cut = true
		p.kill()
	case o.Signal != 0:
		p.pass(o)
	}
}

// pass passes a signal on to the main process or its group. The rest gets TERM for the first
// signal to end and KILL for the second, and nothing for other signals.
func (p *process) pass(o order) {
	sig := o.Signal
	switch {
	case p.main == nil && p.group != 0:
		to := p.group
		if o.Group {
			to = -to
		}
		if signals.Ends(sig) {
			if p.passed, p.had = sig, nil; o.Group {
				p.had = p.members()
			}
		}
		if !o.Noted {
			_ = syscall.Kill(to, sig) // fails only if it has just ended
		}
	case p.phase != rest || !signals.Ends(sig):
	case p.leaveAt != 0: // sent to all at once: the main process was faster than this one
		p.leaveAt = 0
		p.signalRest(sig, nil)
	case !p.asked:
		p.asked = true
		p.signalRest(syscall.SIGTERM, nil)
		p.signalRest(syscall.SIGCONT, nil)
	default:
		p.restKill = 0
	}
}

// act does what is due, and returns how long to wait until it is called again.
func (p *process) act() time.Duration {
	now := Now()
	asked := p.schedule.asked
	do, at := p.schedule.next(now)
	p.cut = p.cut || p.schedule.asked && !asked // the deadline has
	switch do {
	case ask:
		p.phase = ending
		p.signal(syscall.SIGTERM)
	case kill:
		p.kill()
	}
	if p.phase == rest && now >= p.restKill {
		p.killing(func() []proc.ID { return p.signalRest(syscall.SIGKILL, nil) })
	}
	wait := Never
	if at != Never {
		wait = max(at-now, 0)
	}
	if do == kill || p.main != nil {
		// There is no event for the end of the last descendant, so look again until
		// then, and kill processes that were just being started. The pause grows unless
		// such were found, because a process that waits for a disk cannot be killed yet,
		// and looking must not use a whole core, however many processes there are.
		p.pause = max(longer(p.pause), time.Millisecond, 10*p.spent)
		if do == kill {
			return p.pause
		}
		wait = min(wait, p.pause)
	}
	return wait
}

// leaveAfter is how much later than the main process, which has ended by itself, this process
// may get the signal that made it end: systemd and others send one to all processes at once.
const leaveAfter = 20 * time.Millisecond

// end asks all processes to end, which are killed later.
func (p *process) end() {
	p.phase = ending
	if p.schedule.end(Now()) {
		p.signal(syscall.SIGTERM)
	}
}

func (p *process) kill() {
	p.phase = ending
	p.schedule.end(Now())
	p.schedule.killAt = 0
	p.killing(func() []proc.ID {
		if isolated() {
			_ = syscall.Kill(-1, syscall.SIGKILL) // all but this process; it needs no /proc, which the command may have covered
		}
		return p.signal(syscall.SIGKILL)
	})
}

// killing calls all, which kills what it finds. While it finds what it has not found before, as
// where each process starts another one and ends, the pause until the next call stays short.
func (p *process) killing(all func() []proc.ID) {
	began := Now()
	for _, id := range all() {
		if !p.killed[id] {
			p.killed[id], p.pause = true, 0
		}
	}
	p.spent = Now() - began
}

// signal sends the signal to all processes of the command.
func (p *process) signal(sig syscall.Signal) []proc.ID {
	group := p.group
	if p.main != nil && Finds() {
		group = 0 // its number may be another's by now, and its members are descendants
	}
	return signalTree(os.Getpid(), group, sig)
}

// finish reports whether the run has ended. If so it tells how; if only the main process has, it
// tells that, once.
func (p *process) finish() bool {
	if p.main == nil {
		return false
	}
	began := Now()
	p.main.Cut = p.cut
	left := p.phase == rest && p.leaveAt != 0 && began >= p.leaveAt
	if p.phase == rest && !left && p.restLives() || p.phase == ending && p.treeLives() {
		p.spent = max(p.spent, Now()-began)
		if !p.told && p.leaveAt == 0 {
			p.told = true
			p.tell(Event{MainEnded: new(*p.main)})
		}
		return false
	}
	p.phase = over
	p.tell(Event{Ended: p.main})
	return true
}

// note notes what has become of the main process.
func (p *process) note(s syscall.WaitStatus) {
	switch {
	case s.Stopped():
		p.tell(Event{Stopped: s.StopSignal()})
	case s.Continued():
		p.tell(Event{Continued: true})
	case s.Signaled():
		p.endedAs(&Result{Signal: s.Signal()})
	default:
		p.endedAs(&Result{Code: s.ExitStatus()})
	}
}

// endedAs decides what becomes of the others when the main process has ended.
func (p *process) endedAs(r *Result) {
	p.main = r
	switch {
	case p.phase == ending:
	case p.schedule.late(Now()): // this process stood still
		p.cut = true
		p.kill()
	case p.command.Children == EndAll:
		p.end()
	case p.passed != 0:
		p.phase = rest
		p.signalRest(p.passed, p.had)
	case signals.Ends(r.Signal): // sent by another process, or by a key to all of the group
		p.phase = rest
		if !p.isKey(r.Signal) {
			p.signalRest(r.Signal, nil)
		}
	case r.Code > 128 && p.isKey(syscall.Signal(r.Code-128)): // caught by a program that says so
		p.phase = rest
	case r.Signal != 0:
		p.phase = rest
		p.signalRest(syscall.SIGTERM, nil)
		p.restKill = Now() + p.schedule.killAfter
	default:
		p.phase = rest
		if p.command.Children != WaitAll {
			p.leaveAt = Now() + leaveAfter
		}
	}
}

// isKey reports whether the signal is that of a key, which the terminal has sent to the whole
// group of the command.
func (p *process) isKey(sig syscall.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	front, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && front == p.group
}

func (p *process) tell(e Event) { p.report(report{Event: e}) }

func (p *process) report(r report) {
	if !p.orphaned() {
		p.reports.send(r)
	}
}

// bequeath starts the successor in place of this process. That needs certainty: nothing of the
// command may live that this process has not adopted.
func (p *process) bequeath() {
	if s := p.command.Successor; s != nil && p.adopts {
		_ = s.succeed() // if it fails, there is nobody to tell
	}
}

func (p *process) launch(c *Command) {
	p.schedule = schedule{killAfter: c.KillAfter, deadline: c.Deadline}
	if p.schedule.late(Now()) {
		// The program may have stood still since its lock was granted.
		p.report(report{Late: true})
		return
	}
	p.phase, p.command = running, c
	go func() {
		// The kernel kills the command when the thread that started it ends. So this thread
		// stays, and does nothing else: to start a program takes as long as its file system,
		// or who scans its files, takes to open it.
		runtime.LockOSThread()
		pid, err := startCommand(c)
		p.started <- started{pid, err}
		select {}
	}()
}

// begun notes what became of the launch. If its time ran out before, it is over already:
// what has not become the command yet was killed as this process's child.
func (p *process) begun(s started) {
	if s.err != nil {
		errno, ok := errors.AsType[syscall.Errno](s.err)
		if !ok {
			errno = syscall.EINVAL // there is a NUL in a path or an argument
		}
		p.phase = waiting
		p.report(report{Failed: errno})
		return
	}
	p.group = s.pid
	go p.reap()
	p.report(report{Started: s.pid})
}

func startCommand(c *Command) (pid int, err error) {
	if isolated() {
		if err := dropAmbient(); err != nil {
			return 0, err
		}
	}
	env := (&exec.Cmd{Env: c.Env}).Environ() // each variable once
	attr := &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if c.Deadline != Never {
		dieWithParent(attr.Sys)
	}
	if c.Foreground {
		if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
			defer tty.Close()
			attr.Sys.Foreground, attr.Sys.Ctty = true, int(tty.Fd())
		}
	}
	path, args := c.Path, c.Args
	if len(c.PIDVariables) > 0 {
		args = append([]string{setterName, strings.Join(c.PIDVariables, ","), path}, args...)
		if path, err = program(); err != nil {
			return 0, err
		}
	}
	pid, err = syscall.ForkExec(path, args, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		pid, err = syscall.ForkExec(shell, scriptArgs(path, args), attr)
	}
	return pid, err
}

// shell runs a script without a first line that names its interpreter.
const shell = "/bin/sh"

func scriptArgs(path string, args []string) []string {
	return append([]string{shell, path}, args[1:]...)
}

// setterName is the name of this program when it sets variables to its process ID and then
// becomes the command. Its arguments are the variables, and the file and the arguments of the
// command.
const (
	setterName = "holdpid"
	setterArgs = 3
)

// setPIDs does not return. Its exit status is that of a shell.
func setPIDs(variables, path string, args []string) {
	for name := range strings.SplitSeq(variables, ",") {
		_ = os.Setenv(name, strconv.Itoa(os.Getpid())) // a valid name
	}
	err := syscall.Exec(path, args, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) {
		err = syscall.Exec(shell, scriptArgs(path, args), os.Environ())
	}
	fmt.Fprintf(os.Stderr, "holdfast: %q cannot be run: %v\n", args[0], err)
	if errors.Is(err, syscall.ENOENT) {
		os.Exit(127) //nolint:mnd // there is no such command
	}
	os.Exit(126) //nolint:mnd // it cannot be run
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
			close(p.states)
			return
		case pid == p.group:
			p.states <- status
		}
	}
}
