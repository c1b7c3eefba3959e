package guard

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

var isolations = []Isolation{InCgroup, InPIDs}

func newIsolated(t *testing.T, i Isolation) *Guard {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // as newGuard
	g, err := Start(i)
	if err != nil {
		t.Skip("needs", i, err)
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
	if g.cgroup == nil {
		return
	}
	if _, err := os.Stat(g.cgroup.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cgroup %s: got %v, want that it is no more", g.cgroup.path, err)
	}
}

// Nothing outlives an isolated command, not even what has left its session.
func TestIsolatedEnds(t *testing.T) {
	for _, i := range isolations {
		t.Run(string(i), func(t *testing.T) {
			g := newIsolated(t, i)
			c, marks := leaving(t, "exit 5")
			check(t, g.Run(c))
			if got := ended(t, g); got != (Result{Code: 5}) {
				t.Errorf("got %+v", got)
			}
			gone(t, g, marks)
		})
	}
}

// If the guard is killed nothing lives on, although this process cannot adopt: it had a
// child before.
func TestIsolatedGuardKilled(t *testing.T) {
	for _, i := range isolations {
		t.Run(string(i), func(t *testing.T) {
			other := exec.CommandContext(t.Context(), "sleep", "1000")
			if err := other.Start(); err != nil {
				t.Skip("needs sleep:", err)
			}
			defer func() {
				_ = other.Process.Kill()
				_ = other.Wait()
			}()
			g := newIsolated(t, i)
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
		})
	}
}

// An isolated command has the number of its process group outside.
func TestIsolatedGroup(t *testing.T) {
	for _, i := range isolations {
		t.Run(string(i), func(t *testing.T) {
			g := newIsolated(t, i)
			check(t, g.Run(sh("kill -STOP $$")))
			p, ok := proc.Read(g.Group())
			if !ok || p.Parent != g.pid || p.Group != g.Group() {
				t.Errorf("process %d is %+v, want a child of the guard %d", g.Group(), p, g.pid)
			}
			g.Kill()
			for e := range g.Events() {
				if e.Ended != nil {
					return
				}
			}
		})
	}
}

// What is left in a cgroup whose guard and program were killed is ended by the next.
func TestSweep(t *testing.T) {
	c, err := newCgroup()
	if err != nil {
		t.Skip("needs a cgroup:", err)
	}
	left := exec.CommandContext(context.Background(), "sleep", "1000")
	left.SysProcAttr = &syscall.SysProcAttr{}
	c.join(left.SysProcAttr)
	check(t, left.Start())
	defer func() { _ = left.Process.Kill() }()
	next, err := newCgroup()
	check(t, err)
	if !c.lives() {
		t.Error("a cgroup whose guard lives was swept up")
	}
	c.forget()
	next.sweep()
	_ = left.Wait()
	if _, err := os.Stat(c.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it is no more", err)
	}
	next.remove()
	next.forget()
}
