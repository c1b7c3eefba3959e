package acquire

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// silentFor is how long a store may be silent before a line says so.
const silentFor = 3 * time.Second

// watchSilence prints a line if the store has not given its first answer, or an error,
// after silentFor. The returned function ends that.
func (a *acquirer) watchSilence() (stop func() bool) {
	return time.AfterFunc(silentFor, func() {
		a.mu.Lock()
		known := a.heard || a.quiet
		a.mu.Unlock()
		if !known {
			output.SayEvent("no-answer", nil, "the store %s has given no answer for %v. Waiting until %s", a.Store.Name(), silentFor, a.until())
		}
	}).Stop
}

// until says how long a store without an answer is tried.
func (a *acquirer) until() string {
	switch {
	case a.forever:
		return "it does"
	case a.once():
		return oncePatience.String() + " are over"
	}
	return "--wait " + a.wait.String() + " is over"
}
