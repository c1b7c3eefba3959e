//go:build unix

package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Guard is a guard as the program sees it that has the command run: the wrapper.
// Its methods may be called concurrently.
type Guard struct {
	pid     int
	socket  *os.File
	reports chan report
	events  chan Event
	group   int  // the command's; set before the guard is watched
	adopts  bool // what a dead guard leaves comes to this process

	mu       sync.Mutex // guards what follows, and the order of orders
	orders   *json.Encoder
	deadline time.Duration
	lenient  bool
}

// Start starts a guard, which is to be done before a lock is asked for: if it
// fails, nothing has been promised to anybody. The guard ends when this process
// does, and when it is closed.
func Start() (*Guard, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	// The guard's end keeps its number: the lower ones, beyond stderr, may be what
	// this program was given for its command.
	defer syscall.Close(fds[1])
	syscall.CloseOnExec(fds[0])
	adopts := childless()
	if adopts {
		adoptOrphans()
	}
	pid, err := syscall.ForkExec(path, []string{name, strconv.Itoa(fds[1])}, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		// In a group of its own, what the terminal or a shell sends to the
		// wrapper's group does not reach it.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		_ = syscall.Close(fds[0])
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	g := &Guard{
		pid:     pid,
		socket:  os.NewFile(uintptr(fds[0]), "socket"),
		adopts:  adopts,
		reports: make(chan report),
		events:  make(chan Event),
	}
	g.orders = json.NewEncoder(g.socket)
	go receive(g.socket, g.reports)
	go g.keepAwake()
	return g, nil
}

// program is the file of this very program, even if another was put in its place
// since.
func program() (string, error) {
	if runtime.GOOS == "linux" {
		const self = "/proc/self/exe"
		if _, err := os.Stat(self); err == nil {
			return self, nil
		}
	}
	return os.Executable()
}

// childless reports whether this process has no children. A shell that started
// some may have become this program, and those must not be taken for the
// command's.
func childless() bool {
	_, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
	return errors.Is(err, syscall.ECHILD)
}

// keepAwake continues the guard whenever somebody stops it: its command runs on
// meanwhile. It ends with the guard.
func (g *Guard) keepAwake() {
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

// Run starts the command, once. Its error is ErrLate, ErrFell or a syscall.Errno.
func (g *Guard) Run(c Command) error {
	g.lenient, g.deadline = c.Lenient, c.Deadline
	g.order(order{Run: launchOf(c)})
	r, open := <-g.reports
	switch {
	case !open:
		return ErrFell
	case r.Late:
		return ErrLate
	case r.Failed != 0:
		return r.Failed
	}
	g.group = r.Started
	go g.watch()
	return nil
}

// Group is the process group of the command that Run has started.
func (g *Guard) Group() int { return g.group }

// Events yields what happens to the command after Run. It has to be received:
// nothing is dropped. It is never closed.
func (g *Guard) Events() <-chan Event { return g.events }

// Extend moves the deadline, on the clock of Now.
func (g *Guard) Extend(deadline time.Duration) {
	g.mu.Lock()
	g.deadline = max(g.deadline, deadline)
	g.mu.Unlock()
	g.order(order{Deadline: deadline})
}

// End asks the command to end. It is killed Command.KillAfter later, or at the
// deadline if that is earlier.
func (g *Guard) End() { g.order(order{End: true}) }

// Kill ends the command and all its descendants now. A command that is stopped
// does not run again.
func (g *Guard) Kill() { g.order(order{Kill: true}) }

// Signal sends the signal to the command's process group.
func (g *Guard) Signal(sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok {
		g.order(order{Signal: s})
	}
}

// Close dismisses a guard: one without a command, or whose command has ended. Any
// other kills its command.
func (g *Guard) Close() { _ = g.socket.Close() }

func (g *Guard) order(o order) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// It fails only if the guard is no more, which watch learns too.
	_ = g.orders.Encode(o)
}

// watch turns reports into events until the command has ended. A guard that does
// not do its work, or is no more, is stood in for.
func (g *Guard) watch() {
	look := time.NewTicker(time.Second / 4)
	defer look.Stop()
	for {
		select {
		case r, open := <-g.reports:
			if !open {
				g.events <- Event{Ended: g.clear()}
				return
			}
			g.events <- Event{Stopped: r.Stopped, Continued: r.Continued, Ended: r.Ended}
			if r.Ended != nil {
				return
			}
		case <-look.C:
			g.mu.Lock()
			overdue := !g.lenient && Now() >= g.deadline
			g.mu.Unlock()
			if overdue {
				_ = syscall.Kill(g.pid, syscall.SIGCONT)
				_ = syscall.Kill(-g.group, syscall.SIGKILL)
				signalBelow(g.pid, g.group, syscall.SIGKILL)
			}
		}
	}
}

// clear kills what a guard that was killed has left of its command.
func (g *Guard) clear() *Result {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		_ = syscall.Kill(-g.group, syscall.SIGKILL)
		lives := syscall.Kill(-g.group, 0) == nil
		if g.adopts {
			signalTree(g.group, syscall.SIGKILL)
			lives = treeLives(g.group)
		}
		if !lives {
			return &Result{Signal: syscall.SIGKILL, Fell: true}
		}
		time.Sleep(pause)
	}
}
