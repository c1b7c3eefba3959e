package guard

import (
	"os/exec"
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
// goes on with the script, and how to find it.
func leaving(t *testing.T, script string) (c Command, marks []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "left")
	c = sh(`(setsid sh -c ': >` + file + `; sleep 1000' &); while ! [ -e ` + file + ` ]; do sleep 0.01; done; ` + script)
	mark := "HOLDFAST_TEST_MARK=" + file
	c.Env = append(c.Env, mark)
	c.Marks = []string{mark}
	return c, c.Marks
}

func gone(t *testing.T, g *Guard, marks []string) {
	t.Helper()
	if found := proc.Marked(marks); len(found) > 0 {
		t.Errorf("there is still %+v", found)
	}
	if g.Strays() {
		t.Error("it cannot be known whether there is more")
	}
}

// Nothing outlives an isolated command, not even what has left its session.
func TestIsolatedEnds(t *testing.T) {
	g := newIsolated(t)
	c, marks := leaving(t, "exit 5")
	c.Children = EndAll
	check(t, g.Run(c))
	if got := ended(t, g); got != (Result{Code: 5}) {
		t.Errorf("got %+v", got)
	}
	gone(t, g, marks)
}

// If the guard is killed nothing lives on, although this process cannot adopt: it had a
// child before.
func TestIsolatedGuardKilled(t *testing.T) {
	other := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := other.Start(); err != nil {
		t.Skip("needs sleep:", err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	g := newIsolated(t)
	if g.adopts {
		t.Fatal("this process adopts, though it has a child")
	}
	c, marks := leaving(t, "kill -STOP $$")
	check(t, g.Run(c))
	if e := <-g.Events(); e.Stopped == 0 {
		t.Fatalf("got %+v, want that the command has stopped", e)
	}
	if len(proc.Marked(marks)) < 2 {
		t.Fatal("the command and what it has started cannot be found")
	}
	check(t, syscall.Kill(g.pid, syscall.SIGKILL))
	if got := ended(t, g); !got.Fell {
		t.Errorf("got %+v, want that the guard fell", got)
	}
	gone(t, g, marks)
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
