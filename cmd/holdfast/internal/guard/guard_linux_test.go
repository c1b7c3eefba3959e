package guard

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// reap kills the children of this process and waits for them. A guard of another test may
// be one of them still: what a process with children adopts may be theirs.
func reap() {
	signalTree(os.Getpid(), 0, syscall.SIGKILL)
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
		check(t, g.Run(sh("kill -KILL $PPID; sleep 1000 & exec sleep 1000")))
		if got := ended(t, g); !got.Fell {
			t.Errorf("got %+v, want that the guard fell", got)
		}
		if found := slices.Collect(proc.Descendants(os.Getpid(), nil)); len(found) > 0 {
			t.Fatal("of the command there is still", found)
		}
	}
}
