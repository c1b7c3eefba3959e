package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// fullPipe returns the end to write to of a pipe that is full and that nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	check(t, w.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) { // it is full
		t.Fatal(err)
	}
	return w
}

// unread returns holdfast with a stderr that nobody reads.
func unread(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "holdfast", args...)
	cmd.Stderr = fullPipe(t)
	return cmd
}

func wantStatus(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	if err := cmd.Wait(); cmd.ProcessState == nil || status(cmd.ProcessState) != want {
		t.Errorf("%q ended with %v, want status %d", cmd.Args, err, want)
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	if !poll(func() bool { return exists(path) }) {
		t.Fatalf("there is no %s", path)
	}
}

// What run says holds up neither the command nor the release of its locks.
func TestRunWithUnreadStderr(t *testing.T) {
	t.Parallel()
	url := "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
	ran := filepath.Join(t.TempDir(), "ran")
	cmd := unread(t, "run", "-v", "--json-log", "--store", url, "--ttl", "1s", "--at-least", "1h", "a", "b", "c", "--", "touch", ran)
	check(t, cmd.Start())
	wantStatus(t, cmd, 0)
	awaitFile(t, ran)
	client, err := holdfast.Open(t.Context(), url, nil)
	check(t, err)
	defer client.Close()
	kept := 0
	for s, err := range client.Admin().Holds(t.Context(), holdfast.Filter{}) {
		check(t, err)
		if s.Released && s.Left > 59*time.Minute {
			kept++
		}
	}
	if kept != 3 {
		t.Errorf("%d of 3 resources stay locked for the rest of --at-least", kept)
	}
}

// A signal reaches the command, and ends a wait.
func TestSignalWithUnreadStderr(t *testing.T) {
	t.Parallel()
	url, _ := heldStore(t)
	dir := t.TempDir()
	runs, waits := filepath.Join(dir, "runs"), filepath.Join(dir, "waits")
	for name, c := range map[string]struct {
		cmd   *exec.Cmd
		ready func(*testing.T)
	}{
		"runs": {
			unread(t, "run", "-v", "--store", url, "other", "--", "sh", "-c", `: >"$0"; exec sleep 1000`, runs),
			func(t *testing.T) { awaitFile(t, runs) },
		},
		"waits": {
			unread(t, "run", "-v", "--store", url, "--fair", "r", "--", "touch", waits),
			func(t *testing.T) { awaitWaiter(t, url) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, c.cmd.Start())
			c.ready(t)
			check(t, c.cmd.Process.Signal(syscall.SIGTERM))
			wantStatus(t, c.cmd, 128+int(syscall.SIGTERM))
		})
	}
}

func awaitWaiter(t *testing.T, url string) {
	t.Helper()
	if !poll(func() bool {
		text, err := exec.CommandContext(t.Context(), "holdfast", "status", "--store", url).Output()
		return err == nil && strings.Contains(string(text), "waits")
	}) {
		t.Fatal("nobody waits")
	}
}

// A terminal that was stopped by Ctrl-S while it showed the wait does not hold up the
// command.
func TestStoppedTerminal(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	ran := filepath.Join(t.TempDir(), "ran")
	s := onTerminal(t, 120, 24, "holdfast", "run", "-v", "--store", url, "r", "--", "touch", ran)
	s.matches(`waiting for`)
	s.send("\x13")
	give(t, hold)
	awaitFile(t, ran)
}
