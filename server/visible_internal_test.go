package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
	"github.com/holdfast-go/holdfast/server/access"
)

// looker has no name, and may lock everything and look at some resources.
type looker struct {
	access.Caller
	looks map[string]bool
}

func (l looker) May(v access.Verb, resource string) bool {
	return v == access.Lock || v == access.Look && l.looks[resource]
}

// crowd returns holds of several resources, semaphores among them, and their queues, as a
// store shows them. The comment of a hold is its number.
func crowd(rnd *rand.Rand, resources []string) (holds []driver.Status, places []driver.Place) {
	kinds := make(map[string]int) // limits, or 0 for exclusive locks
	for _, r := range resources {
		kinds[r] = max(rnd.IntN(5)-1, 0)
	}
	kind := func(resource string) (driver.Mode, int) {
		if limit := kinds[resource]; limit > 0 && rnd.IntN(8) > 0 {
			return driver.Shared, limit
		}
		return driver.Exclusive, 0
	}
	for _, r := range resources {
		for range rnd.IntN(max(kinds[r], 1) + 1) {
			h := driver.Status{
				Resource: r, LockID: fmt.Sprint("lock ", len(holds)), HoldID: driver.NewHoldID(), Left: time.Minute,
				Details: driver.Details{Comment: fmt.Sprint(len(holds))},
			}
			if h.Mode, h.Limit = driver.Exclusive, 0; kinds[r] > 0 {
				h.Mode, h.Limit = driver.Shared, kinds[r]
			}
			if rnd.IntN(6) > 0 {
				h.Waits = &driver.Waits{Resource: resources[rnd.IntN(len(resources))], Since: time.Unix(int64(1+rnd.IntN(5)), 0)}
				h.Waits.Mode, h.Waits.Limit = kind(h.Waits.Resource)
				p := driver.Place{
					Resource: h.Waits.Resource, ID: driver.NewPlaceID(), LockID: h.LockID, Mode: h.Waits.Mode, Limit: h.Waits.Limit,
					Fair: rnd.IntN(2) > 0, Left: time.Second,
				}
				switch rnd.IntN(8) {
				case 0: // it has none, for the queue is full
				case 1: // its waiter was killed, and the place is gone
					h.Waits.Place = p.ID
				default:
					h.Waits.Place = p.ID
					places = append(places, p)
				}
			}
			holds = append(holds, h)
		}
	}
	rnd.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	return holds, places
}

// What a caller finds by what it may see is a part of what is found at the store. If it may
// look at all, nothing is missing.
func TestDeadlocksOfWhatIsShown(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 3_000
	}
	stuck := func(g deadlock.Graph) (comments []string) {
		g.Reduce()
		for _, r := range g {
			for _, h := range r.Holds {
				comments = append(comments, h.Comment)
			}
		}
		slices.Sort(comments)
		return comments
	}
	found, part := 0, 0
	for seed := range uint64(n) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		resources := []string{"a", "b", "c", "d", "e", "f"}[:2+rnd.IntN(5)]
		holds, places := crowd(rnd, resources)
		caller := looker{access.Everybody(), make(map[string]bool)}
		all := rnd.IntN(2) > 0
		for _, r := range resources {
			caller.looks[r] = all || rnd.IntN(3) > 0
		}
		x := &exchange{caller: caller}
		q := query{outlines: true} // a Client names the resource
		// As httplock reads lists: the first lock ID is its own, and is filled in.
		var seenHolds []driver.Status
		for _, h := range holds {
			if x.mayShow(q, h.Resource, h.LockID) {
				seen := x.hold(h, "").Driver()
				if !seen.HoldID.IsZero() || seen.LockID != "" {
					t.Fatalf("an ID is shown: %+v", seen)
				}
				if h.Comment == "0" {
					seen.HoldID, seen.LockID = h.HoldID, h.LockID
				}
				seenHolds = append(seenHolds, seen)
			}
		}
		var seenPlaces []driver.Place
		for _, p := range places {
			if x.mayShow(q, p.Resource, p.LockID) {
				seenPlaces = append(seenPlaces, x.waiter(p, "").Driver())
			}
		}
		got, want := stuck(deadlock.GraphOf(seenHolds, seenPlaces)), stuck(deadlock.GraphOf(holds, places))
		for _, comment := range got {
			if !slices.Contains(want, comment) {
				t.Fatalf("seed %d: hold %s is stuck only as it is shown, of %+v and %+v", seed, comment, holds, places)
			}
		}
		victim, path := deadlock.GraphOf(seenHolds, seenPlaces).Victim()
		if all && !slices.Equal(got, want) && !ownLocks(holds, places) {
			t.Fatalf("seed %d: holds %v are stuck, but %v as they are shown", seed, want, got)
		}
		if path != nil {
			found++
			if len(got) < len(want) {
				part++
			}
			if victim.Waits == nil {
				t.Fatalf("seed %d: the victim %+v waits for nothing", seed, victim)
			}
		}
	}
	if found < n/20 || part == 0 {
		t.Errorf("only %d deadlocks in %d graphs, %d of them in part", found, n, part)
	}
}

// ownLocks reports whether somebody waits for what its own lock ID holds: that is not seen
// where no lock IDs are.
func ownLocks(holds []driver.Status, places []driver.Place) bool {
	return slices.ContainsFunc(places, func(p driver.Place) bool {
		return slices.ContainsFunc(holds, func(h driver.Status) bool { return h.Resource == p.Resource && h.LockID == p.LockID })
	})
}
