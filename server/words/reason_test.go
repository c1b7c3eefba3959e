package words

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// What is in a waiter's way is the same where a server shows no lock IDs.
func TestReasonWithoutIDs(t *testing.T) {
	held := func(owner string, mode driver.Mode) driver.Status {
		return driver.Status{LockID: owner, Mode: mode, Left: 1}
	}
	limited := func(h driver.Status, limit int) driver.Status {
		h.Limit = limit
		return h
	}
	waits := func(owner string, mode driver.Mode, fair bool) driver.Place {
		return driver.Place{LockID: owner, Mode: mode, Fair: fair, Left: 1}
	}
	for name, test := range map[string]struct {
		holds  []driver.Status
		places []driver.Place
		want   string // for the last one
	}{
		"alone":            {places: []driver.Place{waits("bob", driver.Exclusive, true)}},
		"free, behind one": {places: []driver.Place{waits("bob", driver.Exclusive, true), waits("cy", driver.Exclusive, true)}, want: "1 is served before"},
		"held":             {holds: []driver.Status{held("ann", driver.Exclusive)}, places: []driver.Place{waits("bob", driver.Exclusive, true)}, want: "the holder is in its way"},
		"held, behind one": {holds: []driver.Status{held("ann", driver.Exclusive)}, places: []driver.Place{waits("bob", driver.Exclusive, true), waits("cy", driver.Exclusive, true)}, want: "the holder is in its way, and 1 is served before"},
		"behind a writer":  {holds: []driver.Status{held("ann", driver.Shared)}, places: []driver.Place{waits("wil", driver.Exclusive, true), waits("ron", driver.Shared, false)}, want: "1 is served before"},
		"beside a reader":  {holds: []driver.Status{held("ann", driver.Shared)}, places: []driver.Place{waits("ron", driver.Shared, true)}},
		"another limit": {
			holds:  []driver.Status{limited(held("ann", driver.Shared), 3)},
			places: []driver.Place{waits("bob", driver.Shared, true)}, want: "the lock is held with another limit",
		},
		"a limit that is not shown": {
			holds:  []driver.Status{limited(held("ann", driver.Shared), 3)},
			places: []driver.Place{{LockID: "bob", Mode: driver.Shared, Limit: driver.LimitUnknown, Left: 1}},
		},
		"two readers":       {holds: []driver.Status{held("ann", driver.Shared), held("bob", driver.Shared)}, places: []driver.Place{waits("wil", driver.Exclusive, true)}, want: "the 2 holders are in its way"},
		"behind the unfair": {places: []driver.Place{waits("bob", driver.Exclusive, false), waits("cy", driver.Exclusive, true)}},
	} {
		t.Run(name, func(t *testing.T) {
			last := len(test.places) - 1
			if got := Reason(test.holds, test.places, last); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			for i := range test.holds {
				test.holds[i].LockID = ""
			}
			for i := range test.places {
				test.places[i].LockID = ""
			}
			if got := Reason(test.holds, test.places, last); got != test.want {
				t.Errorf("without lock IDs: got %q, want %q", got, test.want)
			}
		})
	}
}
