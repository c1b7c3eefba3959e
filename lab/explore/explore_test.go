package explore

import (
	"strings"
	"testing"
	"time"
)

// worlds are small enough to be searched completely.
var worlds = map[string]world{
	"two Clients": {
		ttl: 2, until: 4, holdIDs: [2]int8{1, 1}, tries: [2]int8{2, 1},
	},
	"messages that arrive twice": {
		ttl: 2, until: 4, holdIDs: [2]int8{2, 0}, tries: [2]int8{1, 0}, doubles: 1,
	},
	"renewals": {
		ttl: 3, short: 1, until: 5, holdIDs: [2]int8{1, 1}, tries: [2]int8{1, 1}, renewals: [2]int8{2, 0},
	},
	"sweeps": {
		ttl: 1, until: 4, holdIDs: [2]int8{1, 1}, tries: [2]int8{1, 1}, sweeps: true, idle: 1,
	},
}

func TestProtocol(t *testing.T) {
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			states, history := search(w)
			t.Logf("%d states in %v", states, time.Since(began))
			if history != nil {
				t.Errorf("%s", strings.Join(history, "\n"))
			}
		})
	}
}

// The protocol fails if any one of its rules is left out.
func TestRulesAreNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		world  string
		breaks func(*world)
		want   string
	}{
		"the deadline counts from the first send":                     {"two Clients", func(w *world) { w.deadlineFromAnswer = true }, "believes"},
		"a repeat has the same hold ID":                               {"two Clients", func(w *world) { w.holdIDs[0] = 2; w.repeatAnew = true }, "an orphan"},
		"an abandoned hold ID is cleaned up":                          {"two Clients", func(w *world) { w.noCleanUp = true }, "an orphan"},
		"a clean-up of several attempts goes on after the first hold": {"two Clients", func(w *world) { w.stopAtFirstFound = true }, "an orphan"},
		"a clean-up ends with a release sent after its time":          {"two Clients", func(w *world) { w.stopAtAnyAnswer = true }, "an orphan"},
		"attempts before the granted one are remembered":              {"two Clients", func(w *world) { w.forgetStrays = true }, "an orphan"},
		"a release names the hold":                                    {"messages that arrive twice", func(w *world) { w.releaseByLockID = true }, "believes"},
		"a renewal never moves the end back":                          {"renewals", func(w *world) { w.renewBackwards = true }, "believes"},
		"a record that was in use is kept for a while":                {"sweeps", func(w *world) { w.deleteAtOnce = true }, "token"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worlds[test.world]
			test.breaks(&w)
			states, history := search(w)
			if history == nil {
				t.Fatalf("nothing is wrong in %d states", states)
			}
			if last := history[len(history)-1]; !strings.Contains(last, test.want) {
				t.Errorf("got %q, want %q in it", last, test.want)
			}
			t.Logf("found in %d states:\n%s", states, strings.Join(history, "\n"))
		})
	}
}
