package deadlock_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
)

// hide leaves out what a server may: holds, places, notes, lock IDs.
func hide(rnd *rand.Rand, holds []driver.Status, places []driver.Place) ([]driver.Status, []driver.Place) {
	hidden := func(one int) bool { return one > 0 && rnd.IntN(one) == 0 }
	rarely := []int{0, 5, 20}[rnd.IntN(3)]
	holds = slices.DeleteFunc(slices.Clone(holds), func(driver.Status) bool { return hidden(rarely) })
	places = slices.DeleteFunc(slices.Clone(places), func(driver.Place) bool { return hidden(rarely) })
	for i := range holds {
		if hidden(rarely) {
			holds[i].Waits = nil
		}
		if !hidden(4) {
			holds[i].LockID = ""
		}
	}
	for i := range places {
		if !hidden(4) {
			places[i].LockID = ""
		}
	}
	return holds, places
}

// What is left out makes no deadlock: who is stuck in what is shown is stuck in all of it.
func TestNoDeadlockOfWhatIsHidden(t *testing.T) {
	n := 30_000
	if testing.Short() {
		n = 5_000
	}
	found := 0
	for seed := range uint64(n) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		holds, places := random(rnd)
		whole, shown := deadlock.GraphOf(holds, places), deadlock.GraphOf(hide(rnd, holds, places))
		whole.Reduce()
		shown.Reduce()
		for name, r := range shown {
			for _, h := range r.Holds {
				if whole[name] == nil || !slices.ContainsFunc(whole[name].Holds, func(s driver.Status) bool { return s.HoldID == h.HoldID }) {
					t.Fatalf("seed %d: %+v is stuck only in what is shown of %+v and %+v", seed, h, holds, places)
				}
			}
		}
		if _, path := shown.Victim(); path != nil {
			found++
		}
	}
	if found < n/50 {
		t.Errorf("only %d deadlocks in %d graphs", found, n)
	}
}

// Two holders that noted at the same moment find the same victim, though each knows only the
// ID of his own hold.
func TestVictimOfTheSameMoment(t *testing.T) {
	var s scene
	s.hold("a", "b")
	s.hold("b", "a").Waits.Since = s.holds[0].Waits.Since
	var victims []string
	for own := range s.holds {
		seen := slices.Clone(s.holds)
		seen[1-own].HoldID = driver.HoldID{}
		victim, _ := deadlock.GraphOf(seen, s.places).Victim()
		victims = append(victims, victim.Resource)
	}
	if victims[0] != victims[1] {
		t.Errorf("the victims are the holders of %q", victims)
	}
}

// Shares whose lock IDs nobody shows are not taken for shares of one lock ID, which would
// exclude each other.
func TestUnknownLockIDs(t *testing.T) {
	var s scene
	for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
		h := s.hold(way[0], way[1])
		h.LockID, h.Mode = "", driver.Shared
	}
	for i := range s.places {
		s.places[i].LockID, s.places[i].Mode = "", driver.Shared
	}
	if paths := all(t, deadlock.GraphOf(s.holds, s.places)); paths != nil {
		t.Errorf("readers wait for readers: %+v", paths)
	}
}
