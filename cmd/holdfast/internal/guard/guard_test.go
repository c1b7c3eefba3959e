package guard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newGuard(t *testing.T) *Guard {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // or each guard takes a second more to end
	g, err := Start(false)
	check(t, err)
	t.Cleanup(g.Close)
	return g
}

// sh is a command that the shell runs, with an hour's time.
func sh(script string) Command {
	return Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(),
		Deadline: Now() + time.Hour, KillAfter: time.Second,
	}
}

func ended(t *testing.T, g *Guard) Result {
	t.Helper()
	for {
		select {
		case e := <-g.Events():
			if e.Ended != nil {
				return *e.Ended
			}
		case <-time.After(time.Minute):
			t.Fatal("the command has not ended")
		}
	}
}

func TestResult(t *testing.T) {
	for script, want := range map[string]Result{
		"exit 0":        {},
		"exit 255":      {Code: 255},
		"kill -KILL $$": {Signal: syscall.SIGKILL},
		"kill -STOP $$": {Signal: syscall.SIGKILL, Cut: true}, // and then
	} {
		t.Run(script, func(t *testing.T) {
			g := newGuard(t)
			check(t, g.Run(sh(script)))
			if want.Cut {
				if e := <-g.Events(); e.Stopped != syscall.SIGSTOP {
					t.Fatalf("got %+v, want that it was stopped", e)
				}
				g.Kill()
			}
			if got := ended(t, g); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// A command whose lock may be another's by now is not started.
func TestLate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ran")
	g := newGuard(t)
	c := sh(": >" + file)
	c.Deadline = Now()
	if err := g.Run(c); !errors.Is(err, ErrLate) {
		t.Errorf("got %v, want that it is late", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it ran")
	}
}

func TestGuardKilledBefore(t *testing.T) {
	g := newGuard(t)
	check(t, syscall.Kill(g.pid, syscall.SIGKILL))
	check(t, g.Run(sh("exit 0")))
	if got := ended(t, g); !got.Fell {
		t.Errorf("got %+v, want that the guard fell", got)
	}
}

func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]error{"none": fs.ErrNotExist, "": fs.ErrPermission} {
		c := sh("")
		c.Path = filepath.Join(dir, name)
		if err := newGuard(t).Run(c); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", c.Path, err, want)
		}
	}
}

// Arguments and variables need not be text.
func TestBytes(t *testing.T) {
	g := newGuard(t)
	c := sh(`[ "$1$VAR" = "$(printf 'a\377b\377')" ]`)
	c.Args = append(c.Args, "sh", "a\xffb")
	c.Env = append(c.Env, "VAR=first", "VAR=\xff")
	check(t, g.Run(c))
	if got := ended(t, g); got != (Result{}) {
		t.Errorf("got %+v", got)
	}
}

// A guard that is not needed, because the lock was not acquired or the command could not
// be started, ends at once: run waits for it.
func TestCloseUnused(t *testing.T) {
	for name, use := range map[string]func(*Guard){
		"unused": func(*Guard) {},
		"failed": func(g *Guard) {
			c := sh("")
			c.Path = "/no/such/file"
			if err := g.Run(c); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t)
			use(g)
			g.Close()
			select {
			case <-g.gone:
			default:
				t.Error("the guard lives")
			}
		})
	}
}
