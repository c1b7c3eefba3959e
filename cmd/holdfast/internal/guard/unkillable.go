package guard

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// The first and the longest pause between two looks at what the command has started.
// Each new deadline is a look, too.
const (
	firstLook = 20 * time.Millisecond
	longLook  = 10 * time.Second
)

// lookout looks for processes of a command that the guard may not end, because they run
// as another user. A process that is there between two looks only is not found.
type lookout struct {
	at    time.Duration // of the next look, on the clock of Now; 0: at once
	pause time.Duration
	told  map[Unkillable]bool // without the process IDs; nil: nobody looks
}

func newLookout() lookout {
	return lookout{Now() + firstLook, firstLook, make(map[Unkillable]bool)}
}

// look looks if a look is due, and returns what was not there before, and the time until the
// next look. Only the system's own answer counts: root may end a process of any user.
func (l *lookout) look(now time.Duration) (found []Unkillable, wait time.Duration) {
	if l.told == nil {
		return nil, Never
	}
	if now < l.at {
		return nil, l.at - now
	}
	for _, p := range proc.Children(os.Getpid()) {
		if !errors.Is(p.Signal(0), syscall.EPERM) {
			continue
		}
		b := Unkillable{Program: p.Name, UID: p.UID()}
		if l.told[b] {
			continue
		}
		l.told[b] = true
		b.PID = p.PID
		found = append(found, b)
	}
	wait = l.pause
	l.at, l.pause = now+l.pause, min(2*l.pause, longLook)
	return found, wait
}
