//go:build unix

package process

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// heedInterrupt undoes what a shell does to its background jobs. Of a signal
// that was ignored from the start a command in turn cannot be told.
func heedInterrupt() {
	if signal.Ignored(syscall.SIGINT) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	}
}

func TestMain(m *testing.M) {
	heedInterrupt()
	os.Exit(m.Run())
}

// script starts sh with the script and returns a reader of what it prints.
func script(t *testing.T, text string) (*Process, *bufio.Reader) {
	t.Helper()
	return begin(t, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", text}, Env: os.Environ()})
}

func begin(t *testing.T, spec Spec) (*Process, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	stdout := os.Stdout
	os.Stdout = w
	p, err := Start(spec)
	os.Stdout = stdout
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.os.Kill()
		p.Wait()
	})
	return p, bufio.NewReader(r)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("the command printed %q, then: %v", s, err)
	}
	return s[:len(s)-1]
}

func TestStatus(t *testing.T) {
	for text, want := range map[string]Result{
		"exit 0":        {},
		"exit 3":        {Code: 3},
		"exit 255":      {Code: 255},
		"kill -TERM $$": {Signal: syscall.SIGTERM},
		"kill -KILL $$": {Signal: syscall.SIGKILL},
	} {
		t.Run(text, func(t *testing.T) {
			p, _ := script(t, text)
			got := p.Wait()
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestStatusOfSignal(t *testing.T) {
	if got := (Result{Signal: syscall.SIGKILL}).Status(); got != 137 {
		t.Errorf("killed: status %d, want 137", got)
	}
	if got := (Result{Code: 9}).Status(); got != 9 {
		t.Errorf("exited with 9: status %d", got)
	}
}

func TestEnvironment(t *testing.T) {
	env, err := exec.LookPath("env")
	if err != nil {
		t.Skip("needs the command env:", err)
	}
	p, out := begin(t, Spec{Path: env, Args: []string{"env"}, Env: []string{"ONE=0", "ONE=1", "TWO=2"}})
	if one, two := line(t, out), line(t, out); one != "ONE=1" || two != "TWO=2" {
		t.Errorf("got %q and %q, want the last ONE and TWO", one, two)
	}
	p.Wait()
	if more, err := out.ReadString('\n'); err == nil {
		t.Errorf("the command also has %q", more)
	}
}

func TestStartFails(t *testing.T) {
	_, err := Start(Spec{Path: filepath.Join(t.TempDir(), "none"), Args: []string{"none"}})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that the file does not exist", err)
	}
}

func TestScriptWithoutInterpreterLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(file, []byte("exit $1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := Start(Spec{Path: file, Args: []string{"plain", "5"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Wait(); got != (Result{Code: 5}) {
		t.Errorf("got %+v, want code 5", got)
	}
}

func TestSignalReachesCommand(t *testing.T) {
	for _, sig := range []struct {
		name string
		sig  syscall.Signal
	}{{"INT", syscall.SIGINT}, {"TERM", syscall.SIGTERM}} {
		t.Run(sig.name, func(t *testing.T) {
			p, out := script(t, `trap 'echo got; exit 7' `+sig.name+`; echo ready; while :; do sleep 0.01; done`)
			line(t, out)
			p.Signal(sig.sig)
			if got := line(t, out); got != "got" {
				t.Errorf("the command printed %q, want got", got)
			}
			if got := p.Wait(); got != (Result{Code: 7}) {
				t.Errorf("got %+v, want code 7", got)
			}
			p.Signal(sig.sig) // after the end: nothing happens
		})
	}
}

func TestTerminateWaitsForWhoTidiesUp(t *testing.T) {
	p, out := script(t, `trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done`)
	line(t, out)
	if got := p.Terminate(time.Hour); got != (Result{Code: 4}) {
		t.Errorf("got %+v, want the command's own end, code 4", got)
	}
}

func TestTerminateKillsWhoDoesNotListen(t *testing.T) {
	p, out := script(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	line(t, out)
	if got := p.Terminate(20 * time.Millisecond); got != (Result{Signal: syscall.SIGKILL}) {
		t.Errorf("got %+v, want a death by KILL", got)
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
