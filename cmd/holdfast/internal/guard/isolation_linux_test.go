package guard

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

func newIsolated(t *testing.T) *Guard {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // as newGuard
	g, err := Start(true)
	if err != nil {
		t.Skip("needs a PID namespace:", err)
	}
	t.Cleanup(g.Close)
	return g
}

// leaving is a command that leaves a process behind, in a session of its own, before it
// goes on with the script. gone fails the test if that process lives.
func leaving(t *testing.T, script string) (c Command, gone func()) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "alive")
	check(t, syscall.Mkfifo(fifo, 0o600))
	alive, err := syscall.Open(fifo, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	check(t, err)
	t.Cleanup(func() { _ = syscall.Close(alive) })
	c = sh(`(setsid sh -c 'exec 9>` + fifo + `; : >` + fifo + `.open; sleep 1000' &); while ! [ -e ` + fifo + `.open ]; do sleep 0.01; done; ` + script)
	return c, func() {
		t.Helper()
		if n, err := syscall.Read(alive, make([]byte, 1)); n != 0 || err != nil {
			t.Errorf("it lives: %v", err)
		}
	}
}

// Nothing outlives an isolated command, not even what has left its session.
func TestIsolatedEnds(t *testing.T) {
	g := newIsolated(t)
	c, gone := leaving(t, "exit 5")
	c.Children = EndAll
	check(t, g.Run(c))
	if got := ended(t, g); got != (Result{Code: 5}) {
		t.Errorf("got %+v", got)
	}
	gone()
}

// If the guard is killed nothing lives on.
func TestIsolatedGuardKilled(t *testing.T) {
	g := newIsolated(t)
	c, gone := leaving(t, "kill -STOP $$")
	check(t, g.Run(c))
	if e := <-g.Events(); e.Stopped == 0 {
		t.Fatalf("got %+v, want that the command has stopped", e)
	}
	check(t, syscall.Kill(g.pid, syscall.SIGKILL))
	if got := ended(t, g); !got.Fell {
		t.Errorf("got %+v, want that the guard fell", got)
	}
	gone()
}

// An isolated command has the number of its process group outside.
func TestIsolatedGroup(t *testing.T) {
	g := newIsolated(t)
	check(t, g.Run(sh("kill -STOP $$")))
	p, ok := proc.Read(g.Group())
	if !ok || p.Parent != g.pid || p.Group != g.Group() {
		t.Errorf("process %d is %+v, want a child of the guard %d", g.Group(), p, g.pid)
	}
	g.Kill()
	ended(t, g)
}
