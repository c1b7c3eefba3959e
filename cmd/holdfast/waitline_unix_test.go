//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast"
)

// ttyScreen is what a terminal shows.
type ttyScreen struct {
	*os.File // what is typed
	mu       sync.Mutex
	lines    []string
	closed   chan struct{} // when nothing has the terminal open any more
}

// inTerminal runs holdfast in a terminal with that many columns until it has ended.
func inTerminal(t *testing.T, columns uint16, command ...string) *ttyScreen {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	s := &ttyScreen{File: tty, lines: []string{""}, closed: make(chan struct{})}
	go s.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = tty.Close()
		<-s.closed
	})
	return s
}

// read obeys what holdfast writes to a terminal: text, CR, LF and the sequence that
// erases to the end of the line.
func (s *ttyScreen) read() {
	defer close(s.closed)
	in := bufio.NewReader(s.File)
	for column := 0; ; {
		r, _, err := in.ReadRune()
		if err != nil {
			return // all that has the terminal open has ended
		}
		s.mu.Lock()
		line := []rune(s.lines[len(s.lines)-1])
		switch r {
		case '\r':
			column = 0
		case '\n':
			s.lines = append(s.lines, "")
			line = nil
		case '\x1b':
			rest := make([]byte, 2)
			if _, err := io.ReadFull(in, rest); err == nil && string(rest) == "[K" {
				line = line[:column]
			} else {
				line = append(line, r)
			}
		default:
			line = append(line[:column], append([]rune{r}, line[min(column+1, len(line)):]...)...)
			column++
		}
		s.lines[len(s.lines)-1] = string(line)
		s.mu.Unlock()
	}
}

func (s *ttyScreen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// await waits until the screen matches and returns it.
func (s *ttyScreen) await(t *testing.T, pattern string) string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text := s.text()
		switch {
		case want.MatchString(text):
			return text
		case time.Now().After(deadline):
			t.Fatalf("the screen does not match %s:\n%s", pattern, text)
		}
	}
}

// ended waits until the terminal is left and returns what it shows.
func (s *ttyScreen) ended(t *testing.T) string {
	t.Helper()
	select {
	case <-s.closed:
	case <-time.After(patience):
		t.Fatalf("it still runs; the screen:\n%s", s.text())
	}
	return s.text()
}

// heldStore is a store in which the resource r is held for an hour.
func heldStore(t *testing.T) (url string, hold *holdfast.Hold) {
	t.Helper()
	url = "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
	client, err := holdfast.Open(t.Context(), url, &holdfast.Options{Owner: "ada", Host: "web1", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	hold, err = client.Lock(t.Context(), "r", &holdfast.LockOptions{Comment: "why\tnot"})
	if err != nil {
		t.Fatal(err)
	}
	return url, hold
}

func letGo(t *testing.T, hold *holdfast.Hold) {
	t.Helper()
	if err := hold.Unlock(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// The line counts down in place, is erased when the wait ends, and what comes then
// stands where it stood.
func TestWaitLine(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	s := inTerminal(t, 120, "holdfast", "run", "-v", "--store", url, "r", "--", "echo", "ran")
	s.await(t, `\Aholdfast: waiting for "r", held by ada on web1 for [0-9ms]+, 59m[45]\ds left \(why\\tnot\)\z`)
	first := s.text()
	for deadline := time.Now().Add(patience); s.text() == first; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not drawn again")
		}
	}
	s.await(t, `\Aholdfast: waiting for [^\n]+\z`)
	letGo(t, hold)
	if got := s.ended(t); !regexp.MustCompile(`\Aholdfast: acquired "r" after [0-9.]+m?s, token \d+\nran\n\z`).MatchString(got) {
		t.Errorf("in the end the screen shows %q", got)
	}
}

// It says the position of one that waits in turn.
func TestWaitLinePosition(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	s := inTerminal(t, 120, "holdfast", "run", "--fair", "--store", url, "r", "--", "true")
	s.await(t, `\Aholdfast: waiting for "r", position 1 of 1, held by ada on web1 for `)
	second := inTerminal(t, 120, "holdfast", "run", "--fair", "--store", url, "r", "--", "true")
	second.await(t, `\Aholdfast: waiting for "r", position 2 of 2, held by ada on web1 for `)
	letGo(t, hold)
	for _, screen := range []*ttyScreen{s, second} {
		if got := screen.ended(t); got != "" {
			t.Errorf("in the end the screen shows %q", got)
		}
	}
}

// It never takes more than a line.
func TestWaitLineIsCut(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	s := inTerminal(t, 40, "holdfast", "run", "--store", url, "r", "--", "true")
	if got := s.await(t, `\.\.\.\z`); len(got) != 37 {
		t.Errorf("it has %d characters: %q", len(got), got)
	}
	letGo(t, hold)
	if got := s.ended(t); got != "" {
		t.Errorf("in the end the screen shows %q", got)
	}
}

// Ctrl-C ends the wait and leaves one line, that of the error.
func TestWaitLineInterrupted(t *testing.T) {
	t.Parallel()
	url, _ := heldStore(t)
	s := inTerminal(t, 80, "holdfast", "run", "--store", url, "r", "--", "true")
	s.await(t, `waiting for`)
	if _, err := s.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if got := s.ended(t); !regexp.MustCompile(`\Aholdfast: stopped by a signal [^\n]+\n\z`).MatchString(got) {
		t.Errorf("in the end the screen shows %q", got)
	}
}

// The error of a wait that was too long stands alone, too.
func TestWaitLineInVain(t *testing.T) {
	t.Parallel()
	url, _ := heldStore(t)
	s := inTerminal(t, 80, "holdfast", "run", "--store", url, "--wait", "3s", "r", "--", "true")
	s.await(t, `waiting for`)
	if got := s.ended(t); !regexp.MustCompile(`\Aholdfast: "r" is held by ada on web1 since [0-9:]+, for \d+s \(why\\tnot\); gave up [^\n]+\n\z`).MatchString(got) {
		t.Errorf("in the end the screen shows %q", got)
	}
}

// Who does not want it or does not wait is spared it, and so is a job in the background,
// which does not draw where somebody types. Where a line cannot be redrawn, it is one of a
// log.
func TestNoWaitLine(t *testing.T) {
	t.Parallel()
	const held, waiting = `holdfast: "r" is held by ada on web1 since [^\n]+\n`, `holdfast: waiting for "r", held by ada on web1 for [^\n]+ left [^\n]+\n`
	for name, c := range map[string]struct{ script, want string }{
		"quiet":      {`holdfast run --quiet --wait 2s r -- true`, ``},
		"no wait":    {`holdfast run -n r -- true`, held},
		"dumb":       {`TERM=dumb holdfast run --wait 2s r -- true`, waiting + held},
		"pipe":       {`holdfast run --wait 2s r -- true 2>&1 | cat >&2`, waiting + held},
		"background": {`set -m; holdfast run --wait 2s r -- true & wait`, held},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := heldStore(t)
			s := inTerminal(t, 200, "sh", "-c", "HOLDFAST_STORE='"+url+"'; export HOLDFAST_STORE; "+c.script)
			if got := s.ended(t); !regexp.MustCompile(`\A` + c.want + `\z`).MatchString(got) {
				t.Errorf("the screen shows %q", got)
			}
		})
	}
}

// While the store gives no answer nobody knows who holds the lock.
func TestWaitLineInAnOutage(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	file := strings.TrimPrefix(url, "sqlite://")
	s := inTerminal(t, 200, "holdfast", "run", "--store", "outage://"+file, "r", "--", "true")
	s.await(t, `\Aholdfast: waiting for [^\n]+\z`)
	if err := os.WriteFile(file+".down", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.await(t, `\Aholdfast: the store [^\n]+ Trying again until it can\n\z`)
	if err := os.Remove(file + ".down"); err != nil {
		t.Fatal(err)
	}
	s.await(t, `\Aholdfast: the store [^\n]+ Trying again until it can\nholdfast: waiting for [^\n]+\z`)
	letGo(t, hold)
	if got := s.ended(t); strings.Contains(got, "waiting") {
		t.Errorf("in the end the screen shows %q", got)
	}
}
