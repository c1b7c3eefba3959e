package main

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// heldStore is a store in which the resource r is held for an hour.
func heldStore(t *testing.T) (url string, hold *holdfast.Hold) {
	t.Helper()
	url, client := storeOf(t)
	return url, take(t, client, "r", holdfast.LockOptions{Owner: "ada", Host: "web1", Comment: "why\tnot"})
}

// The line counts down in place, is erased when the wait ends, and what comes then
// stands where it stood.
func TestWaitLine(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	s := onTerminal(t, 120, 24, "holdfast", "run", "-v", "--store", url, "r", "--", "echo", "ran")
	s.matches(`\Aholdfast: waiting for "r", held by ada on web1 for [0-9ms]+, 59m[45]\ds left \(why\\tnot\)\z`)
	first := s.text()
	s.await("it to be drawn again", func() bool { return s.text() != first })
	s.matches(`\Aholdfast: waiting for [^\n]+\z`)
	give(t, hold)
	s.leaves(`\Aholdfast: acquired "r" after [0-9.]+m?s, token \d+\nran\z`)
}

// It says the position of one that waits in turn.
func TestWaitLinePosition(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	s := onTerminal(t, 120, 24, "holdfast", "run", "--fair", "--store", url, "r", "--", "true")
	s.matches(`\Aholdfast: waiting for "r", position 1 of 1, held by ada on web1 for `)
	second := onTerminal(t, 120, 24, "holdfast", "run", "--fair", "--store", url, "r", "--", "true")
	second.matches(`\Aholdfast: waiting for "r", position 2 of 2, held by ada on web1 for `)
	give(t, hold)
	for _, screen := range []*display{s, second} {
		screen.leaves(`\A\z`)
	}
}

// It never takes more than a line.
func TestWaitLineIsCut(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	s := onTerminal(t, 40, 24, "holdfast", "run", "--store", url, "r", "--", "true")
	if got := s.matches(`\.\.\.\z`); len(got) != 37 {
		t.Errorf("it has %d characters: %q", len(got), got)
	}
	give(t, hold)
	s.leaves(`\A\z`)
}

// Ctrl-C ends the wait and leaves one line, that of the error.
func TestWaitLineInterrupted(t *testing.T) {
	t.Parallel()
	url, _ := heldStore(t)
	s := onTerminal(t, 200, 24, "holdfast", "run", "--store", url, "r", "--", "true")
	s.matches(`waiting for`)
	s.send("\x03")
	s.leaves(`\Aholdfast: stopped by a signal [^\n]+\z`)
}

// Who does not want it or does not wait is spared it, and so is a job in the background,
// which does not draw where somebody types. Where a line cannot be redrawn, it is one of a
// log.
func TestNoWaitLine(t *testing.T) {
	t.Parallel()
	const held, waiting = `holdfast: "r" is held by ada on web1 for [^\n]+`, `holdfast: waiting for "r", held by ada on web1 for [^\n]+ left [^\n]+`
	for name, c := range map[string]struct{ script, want string }{
		"quiet":      {`holdfast run --quiet --wait 2s r -- true`, ``},
		"no wait":    {`holdfast run -n r -- true`, held},
		"dumb":       {`TERM=dumb holdfast run --wait 2s r -- true`, waiting + `\n` + held},
		"pipe":       {`holdfast run --wait 2s r -- true 2>&1 | cat >&2`, waiting + `\n` + held},
		"background": {`set -m; holdfast run --wait 2s r -- true & wait`, held},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := heldStore(t)
			s := onTerminal(t, 200, 24, "sh", "-c", "HOLDFAST_STORE='"+url+"'; export HOLDFAST_STORE; "+c.script)
			s.leaves(`\A` + c.want + `\z`)
		})
	}
}

// While the store gives no answer nobody knows who holds the lock.
func TestWaitLineInAnOutage(t *testing.T) {
	t.Parallel()
	url, hold := heldStore(t)
	file := strings.TrimPrefix(url, "sqlite://")
	s := onTerminal(t, 200, 24, "holdfast", "run", "--store", "outage://"+file, "r", "--", "true")
	s.matches(`\Aholdfast: waiting for [^\n]+\z`)
	check(t, os.WriteFile(file+".down", nil, 0o600))
	s.matches(`\Aholdfast: the store [^\n]+ Trying again until it can\z`)
	check(t, os.Remove(file+".down"))
	s.matches(`\Aholdfast: the store [^\n]+ Trying again until it can\nholdfast: waiting for [^\n]+\z`)
	give(t, hold)
	if got := s.end(); strings.Contains(got, "waiting") {
		t.Errorf("in the end the screen shows %q", got)
	}
}
