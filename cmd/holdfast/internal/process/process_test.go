package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
)

// heedInterrupt undoes what a shell does to its background jobs. Of a signal
// that was ignored from the start a command in turn cannot be told.
func heedInterrupt() {
	if signal.Ignored(syscall.SIGINT) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	}
}

func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv("HOLDFAST_TEST_DIE")); err == nil {
		Die(syscall.Signal(n))
		os.Exit(3)
	}
	heedInterrupt()
	os.Exit(m.Run())
}

// Of some of these the runtime makes a panic or a core, if they are sent to a
// program as it is.
func TestDie(t *testing.T) {
	for _, sig := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS,
		syscall.SIGFPE, syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGSEGV, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM,
		syscall.SIGTERM, syscall.SIGXCPU, syscall.SIGSYS,
	} {
		t.Run(sig.String(), func(t *testing.T) {
			// The limit of cores is raised as far as it may be.
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -c unlimited 2>/dev/null; exec "$0"`, os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("HOLDFAST_TEST_DIE=%d", int(sig)))
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok {
				t.Fatalf("it ended with %v", err)
			}
			state, _ := exit.Sys().(syscall.WaitStatus)
			if !state.Signaled() || state.Signal() != sig || state.CoreDump() {
				t.Errorf("it ended with %v, want a death of the signal without a core", exit)
			}
			if len(out) > 0 {
				t.Errorf("it printed %s", out)
			}
		})
	}
}

func TestNamed(t *testing.T) {
	for _, name := range []string{"TERM", "SIGTERM", "term", "sigterm"} {
		if sig, err := Named(name); sig != syscall.SIGTERM || err != nil {
			t.Errorf("%s is %v, %v", name, sig, err)
		}
	}
	for _, name := range []string{"", "SIG", "KILL", "STOP", "15", "SIGSIGTERM"} {
		if sig, err := Named(name); err == nil {
			t.Errorf("%q is %v", name, sig)
		}
	}
}

func TestIgnoredSignalStaysIgnored(t *testing.T) {
	signal.Ignore(syscall.SIGINT)
	defer func() {
		signal.Reset(syscall.SIGINT)
		heedInterrupt()
	}()
	received, stop := Signals()
	defer stop()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-received; got != syscall.SIGTERM {
		t.Errorf("received %v, want only the signal that is not ignored", got)
	}
}
