package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Guard is the program's end of a guard. The methods may be called concurrently.
type Guard struct {
	pid      int
	socket   *os.File
	reports  chan report
	events   chan Event
	gone     chan struct{} // closed when the guard has ended
	closing  atomic.Bool   // the program needs nothing any more
	isolated bool          // in a PID namespace
	group    int           // the command's process group; set before watch starts
	children Children      // of the command
	over     bool          // the main process has ended: its group's number may be another's; for watch

	orders *outbox[order]

	mu       sync.Mutex // guards what follows
	deadline time.Duration
	others   others
}

// Start starts a guard, whose command is isolated if that is set. Call it before a lock is
// acquired: if it fails, no lock is held yet. The guard ends with this process, or when it
// is closed.
func Start(isolate bool) (*Guard, error) {
	if isolate {
		return startInPIDs()
	}
	return start(nil)
}

// start starts a guard with these attributes, nil for none.
func start(attr *syscall.SysProcAttr) (*Guard, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	// The guard's end keeps its number: lower ones, beyond stderr, may be descriptors
	// that this program was given for its command.
	defer syscall.Close(fds[1])
	syscall.CloseOnExec(fds[0])
	adoptOrphans() // of the guard, if that is killed
	others := present()
	args := []string{name, strconv.Itoa(fds[1])}
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	// In a group of its own, it does not get what the terminal or a shell sends
	// to this process's group.
	attr.Setpgid = true
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: attr})
	if err != nil {
		_ = syscall.Close(fds[0])
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	g := &Guard{
		pid:     pid,
		socket:  os.NewFile(uintptr(fds[0]), "socket"),
		reports: make(chan report),
		events:  make(chan Event),
		gone:    make(chan struct{}),
		others:  others,
	}
	g.orders = newOutbox[order](g.socket)
	go receive(g.socket, g.reports)
	go g.keepAwake()
	return g, nil
}

// program returns the file of this program, even if another file has replaced it.
func program() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// keepAwake continues the guard whenever it is stopped, because the command would run
// on. It returns when the guard has ended.
func (g *Guard) keepAwake() {
	defer close(g.gone)
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(g.pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err == nil && status.Stopped():
			_ = syscall.Kill(g.pid, syscall.SIGCONT)
		default:
			return
		}
	}
}

// Run starts the command. It may be called once. The error is ErrLate or a syscall.Errno. If the
// guard is killed meanwhile, Events tells.
func (g *Guard) Run(c Command) error {
	g.mu.Lock() // Extend may be called already
	g.deadline, g.children = c.Deadline, c.Children
	g.mu.Unlock()
	g.orders.send(order{Run: launchOf(c)})
	r := <-g.reports
	switch {
	case r.Late:
		return ErrLate
	case r.Failed != 0:
		return r.Failed
	}
	if g.group = r.Started; g.isolated {
		g.group = outside(g.pid, r.Started)
	}
	go g.watch()
	return nil
}

// Group returns the process group of the command that Run has started.
func (g *Guard) Group() int { return g.group }

// Events returns the channel of what happens to the command after Run. The caller
// has to receive: nothing is dropped. The channel is never closed.
func (g *Guard) Events() <-chan Event { return g.events }

// Extend moves the deadline, on the clock of Now.
func (g *Guard) Extend(deadline time.Duration) {
	g.mu.Lock()
	g.deadline = max(g.deadline, deadline)
	g.mu.Unlock()
	g.orders.send(order{Deadline: deadline})
}

// End asks the command to end. It is killed Command.KillAfter later, or at the
// deadline if that is earlier.
func (g *Guard) End() { g.orders.send(order{End: true}) }

// Kill ends the command and all its descendants now. A stopped command does not run
// again.
func (g *Guard) Kill() { g.orders.send(order{Kill: true}) }

// Signal sends the signal to the command's main process or, once that has ended, to those that
// the run waits for: see Command.Children.
func (g *Guard) Signal(sig syscall.Signal) { g.orders.send(order{Signal: sig}) }

// SignalGroup sends the signal to the main process's group, or as Signal.
func (g *Guard) SignalGroup(sig syscall.Signal) { g.orders.send(order{Signal: sig, Group: true}) }

// Noted tells that the group has had the signal, which asks it to end.
func (g *Guard) Noted(sig syscall.Signal) {
	g.orders.send(order{Signal: sig, Group: true, Noted: true})
}

// Spare calls start, which starts a process that is not the command's and returns its number.
func (g *Guard) Spare(start func() (pid int, err error)) error {
	g.mu.Lock() // before the process is known, its end must not be taken for an orphan's
	defer g.mu.Unlock()
	pid, err := start()
	if err == nil {
		g.others.add(pid)
	}
	return err
}

// Close ends the guard. A command that still runs is killed, except for the rest of one whose
// deadline is Never. There will be no successor.
func (g *Guard) Close() {
	g.closing.Store(true)
	g.orders.send(order{Done: true})
	patience := time.After(time.Second)
	if pending := g.orders.calls.Pending(); pending != nil {
		select {
		case <-pending:
		case <-patience:
		}
	}
	// Closed alone, the socket would stay open for as long as somebody reads from it.
	if socket, err := g.socket.SyscallConn(); err == nil {
		_ = socket.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	_ = g.socket.Close()
	// Where the first process of a container does not wait for orphans, each would stay.
	select {
	case <-g.gone:
	case <-patience:
	}
}

// watch turns reports into events until the command has ended. It replaces the guard
// if that does not act, or is gone.
func (g *Guard) watch() {
	const pause = time.Second / 4
	look := time.NewTicker(pause)
	defer look.Stop()
	lookout := lookout{pause: pause, told: make(map[Unkillable]bool)}
	for {
		select {
		case r, open := <-g.reports:
			if !open && g.closing.Load() {
				return
			}
			if !open {
				g.events <- Event{Ended: g.clear()}
				return
			}
			g.over = g.over || r.MainEnded != nil
			g.events <- r.Event
			if r.Ended != nil {
				return
			}
		case <-look.C:
			g.mu.Lock()
			deadline := g.deadline
			g.others.reap(g.pid)
			g.mu.Unlock()
			now := Now()
			if now >= deadline {
				_ = syscall.Kill(g.pid, syscall.SIGCONT)
				signalTree(g.pid, g.liveGroup(), syscall.SIGKILL)
			}
			if deadline == Never || g.isolated { // the end of a namespace ends processes of all users
				continue
			}
			for _, b := range lookout.look(g.pid, now, deadline) {
				g.events <- Event{Unkillable: &b}
			}
		}
	}
}

// clear kills what is left of the command of a guard that was killed, whose main process the
// kernel has killed.
func (g *Guard) clear() *Result {
	<-g.gone // what it leaves behind has another parent now
	group := g.liveGroup()
	if group != 0 {
		_ = syscall.Kill(-group, syscall.SIGKILL) // all at once
	}
	for pause := time.Millisecond; g.killLeft(group); pause = longer(pause) {
		time.Sleep(pause)
	}
	return &Result{Signal: syscall.SIGKILL, Fell: true}
}

func (g *Guard) killLeft(group int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.others.killLeft(group)
}

// liveGroup returns the command's group, or 0 if its number may be another's by now and its
// members are found without it.
func (g *Guard) liveGroup() int {
	if g.over && Finds() {
		return 0
	}
	return g.group
}

// longer returns the pause after that one, between two looks at what does not end.
func longer(pause time.Duration) time.Duration { return min(2*pause, 100*time.Millisecond) }

// Now reads the clock of deadlines. All processes of a machine share it, and it
// counts the time that the machine sleeps where the system has such a clock.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // every system has this one
	}
	return time.Duration(ts.Nano())
}
