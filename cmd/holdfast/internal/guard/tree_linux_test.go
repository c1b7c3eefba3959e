package guard

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// reap kills the children of this process and waits for them. Children of a guard that
// was killed become children of this process, and the next guard adopts orphans only
// where there are none.
func reap() {
	signalBelow(os.Getpid(), 0, syscall.SIGKILL)
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}

// The guard may be killed after it started the command and before it reported so.
// Nothing of the command stays.
func TestGuardKilledByCommand(t *testing.T) {
	for range 20 {
		reap()
		g := newGuard(t)
		switch err := g.Run(sh("kill -KILL $PPID; sleep 1000 & exec sleep 1000")); {
		case err == nil:
			if got := ended(t, g); !got.Fell {
				t.Errorf("got %+v, want that the guard fell", got)
			}
		case !errors.Is(err, ErrFell):
			t.Errorf("got %v, want that the guard fell", err)
		}
		if !g.adopts || treeLives(g.group) {
			t.Fatal("something of the command lives")
		}
	}
}
