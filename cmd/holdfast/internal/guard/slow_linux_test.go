package guard

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// scanner holds up whoever executes the file, as a virus scanner does that scans it first.
type scanner struct {
	held  chan struct{} // closed when somebody is held up
	allow func()
}

func scan(t *testing.T, file string) *scanner {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC, unix.O_RDONLY)
	if err == nil {
		err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_EXEC_PERM, unix.AT_FDCWD, file)
	}
	if err != nil {
		t.Skipf("no program can be held up here: %v", err)
	}
	allowed, done := make(chan struct{}), make(chan struct{})
	s := &scanner{held: make(chan struct{}), allow: sync.OnceFunc(func() { close(allowed) })}
	go func() {
		defer close(done)
		defer unix.Close(fd) // which allows what is not answered
		event := unix.FanotifyEventMetadata{}
		buf := make([]byte, binary.Size(event))
		if _, err := unix.Read(fd, buf); err != nil || binary.Read(bytes.NewReader(buf), binary.NativeEndian, &event) != nil {
			t.Errorf("reading the event: %v", err)
			return
		}
		close(s.held)
		<-allowed
		var answer bytes.Buffer
		_ = binary.Write(&answer, binary.NativeEndian, unix.FanotifyResponse{Fd: event.Fd, Response: unix.FAN_ALLOW})
		_, _ = unix.Write(fd, answer.Bytes()) // fails if who was held up has been killed
		_ = unix.Close(int(event.Fd))
	}()
	t.Cleanup(func() {
		s.allow()
		<-done
	})
	return s
}

// startSlowly runs a script with that time, and returns when its shell is held up, with what
// Run will return.
func startSlowly(t *testing.T, script string, left time.Duration) (g *Guard, s *scanner, ran chan error) {
	t.Helper()
	shell, err := os.ReadFile("/bin/sh")
	check(t, err)
	c := sh(script)
	c.Path = filepath.Join(t.TempDir(), "sh")
	check(t, os.WriteFile(c.Path, shell, 0o700)) //nolint:gosec // it is executed
	s = scan(t, c.Path)
	g = newGuard(t)
	c.Deadline, c.KillAfter = Now()+left, 0
	ran = make(chan error, 1)
	go func() { ran <- g.Run(c) }()
	<-s.held
	return g, s, ran
}

// A command whose file is opened so slowly that its deadline passes never runs.
func TestSlowStart(t *testing.T) {
	g, _, ran := startSlowly(t, "exit 3", 300*time.Millisecond)
	select {
	case err := <-ran: // at the deadline
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the guard waits for the file")
	}
	if got := ended(t, g); got != (Result{Signal: syscall.SIGKILL, Cut: true}) {
		t.Errorf("got %+v", got)
	}
}

// A deadline that is extended while the command starts is the one that counts.
func TestExtendedWhileStarting(t *testing.T) {
	g, s, ran := startSlowly(t, "exit 3", time.Second)
	g.Extend(Now() + time.Hour)
	if pending := g.orders.calls.Pending(); pending != nil {
		<-pending
	}
	deadline := time.After(1100 * time.Millisecond) // the first one
	select {
	case err := <-ran:
		t.Fatalf("the start was ended: %v", err)
	case <-deadline:
	}
	s.allow()
	check(t, <-ran)
	if got := ended(t, g); got != (Result{Code: 3}) {
		t.Errorf("got %+v", got)
	}
}

// If the guard stands still, as under a debugger, its orders fill the socket. The program
// ends the command at the deadline nevertheless.
func TestFullSocket(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "alive")
	check(t, unix.Mkfifo(fifo, 0o600))
	g := newGuard(t)
	c := sh(`trap "" USR1; exec >` + fifo + `; echo; while :; do sleep 60; done`)
	c.Deadline = Now() + 2*time.Second
	check(t, g.Run(c))
	alive, err := os.Open(fifo)
	check(t, err)
	defer alive.Close()
	if _, err := alive.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // the one that traces
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(g.pid); err != nil {
		t.Skipf("the guard cannot be held: %v", err)
	}
	check(t, unix.PtraceInterrupt(g.pid))
	defer func() { // before another test starts a guard, which would be killed as a child of the dead one
		_ = syscall.Kill(g.pid, syscall.SIGKILL)
		ended(t, g)
	}()
	for range 10_000 {
		g.Signal(syscall.SIGUSR1)
	}
	check(t, alive.SetReadDeadline(time.Now().Add(30*time.Second)))
	if n, err := alive.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("the command lives: %d bytes, %v", n, err)
	}
}
