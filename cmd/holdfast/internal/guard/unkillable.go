package guard

import (
	"errors"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// longLook is the longest pause between two looks at what the command has started, which grows
// from a quarter of a second. Each new deadline is a look, too.
const longLook = 10 * time.Second

// lookout looks for processes of a command that the guard may not end, because they run
// as another user. A process that is there between two looks only is not found.
type lookout struct {
	at       time.Duration // of the next look, on the clock of Now
	pause    time.Duration
	deadline time.Duration       // at the last look
	told     map[Unkillable]bool // without the process IDs
}

// look looks if a look is due, and returns what was not there before. Only the system's own
// answer counts: root may end a process of any user.
func (l *lookout) look(guard int, now, deadline time.Duration) (found []Unkillable) {
	if now < l.at && deadline == l.deadline {
		return nil
	}
	l.pause = min(2*l.pause, longLook)
	l.at, l.deadline = now+l.pause, deadline
	for _, p := range proc.Children(guard) {
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
	return found
}
