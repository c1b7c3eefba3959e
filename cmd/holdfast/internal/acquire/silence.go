package acquire

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// silentFor is how long a store may be silent before a line says so.
const silentFor = 3 * time.Second

// watchSilence prints a line if the store has not given its first answer, or an error,
// after silentFor, also with --quiet. The returned function ends that.
func (a *acquirer) watchSilence() (stop func() bool) {
	return time.AfterFunc(silentFor, func() {
		a.mu.Lock()
		known := a.heard
		a.mu.Unlock()
		if !known {
			output.SayEvent("no-answer", nil, "the store %s has given no answer for %v. Waiting %s", a.Store.Name(), silentFor, a.patience())
		}
	}).Stop
}

// patience says how long a store is given for its first answer. A driver may give up before.
func (a *acquirer) patience() string {
	switch {
	case a.forever:
		return "until it does"
	case a.once():
		return "for " + oncePatience.String() + " at most"
	}
	return "for " + a.wait.String() + " (--wait) at most"
}

// until says how long a store that could not be used is tried again.
func (a *acquirer) until() string {
	if a.forever {
		return "it can"
	}
	return "--wait " + a.wait.String() + " is over"
}
