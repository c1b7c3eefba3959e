package deadlock_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
	"github.com/holdfast-go/holdfast/driver/model"
)

// reference finds the same as the package, as plainly as it can be said: by the model's own
// rule, again and again until nothing changes.
type reference deadlock.Graph

func (g reference) reduce() {
	for changed := true; changed; {
		changed = false
		for _, r := range g {
			before := len(r.Holds) + len(r.Places)
			r.Holds = slices.DeleteFunc(r.Holds, func(s driver.Status) bool {
				return s.Waits == nil || s.Released || !s.Live() || g.hasRoom(s)
			})
			r.Places = slices.DeleteFunc(r.Places, func(p driver.Place) bool { return room(r, p, driver.HoldID{}) })
			changed = changed || len(r.Holds)+len(r.Places) < before
		}
	}
}

func placeOf(r *deadlock.Record, id driver.PlaceID) int {
	return slices.IndexFunc(r.Places, func(p driver.Place) bool { return p.ID == id })
}

func (g reference) hasRoom(s driver.Status) bool {
	w := s.Waits
	r := g[w.Resource]
	if r == nil {
		return true
	}
	p := driver.Place{Mode: w.Mode, Limit: w.Limit}
	var nested driver.HoldID
	switch {
	case !w.Place.IsZero():
		i := placeOf(r, w.Place)
		if i < 0 {
			return true
		}
		p = r.Places[i]
	case s.Resource == w.Resource && s.Mode == driver.Shared:
		nested = s.HoldID
	}
	return room(r, p, nested)
}

func room(r *deadlock.Record, p driver.Place, nested driver.HoldID) bool {
	q := driver.AcquireRequest{
		LockID: p.LockID, Mode: p.Mode, Limit: max(p.Limit, 0), OwnLimit: p.Limit < 0, Place: p.ID, Fair: p.Fair, Nested: nested,
	}
	return model.Refusal(model.RecordOf(r.Holds, r.Places), 0, q) == nil
}

// victims returns the holds of the victims, and how long their paths are.
func (g reference) victims() (victims []string) {
	for {
		g.reduce()
		var stuck []driver.Status
		for _, r := range g {
			stuck = append(stuck, r.Holds...)
		}
		slices.SortFunc(stuck, func(a, b driver.Status) int {
			return cmp.Or(
				b.Waits.Since.Compare(a.Waits.Since), cmp.Compare(b.Resource, a.Resource), b.Created.Compare(a.Created),
				bytes.Compare(b.HoldID[:], a.HoldID[:]),
			)
		})
		i := slices.IndexFunc(stuck, func(s driver.Status) bool { return g.cycle(s) > 0 })
		if i < 0 {
			return victims
		}
		s := stuck[i]
		victims = append(victims, fmt.Sprint(s.HoldID, g.cycle(s)))
		r, w := g[s.Resource], g[s.Waits.Resource]
		r.Holds = slices.DeleteFunc(r.Holds, func(h driver.Status) bool { return h.HoldID == s.HoldID })
		w.Places = slices.DeleteFunc(w.Places, func(p driver.Place) bool { return p.ID == s.Waits.Place })
	}
}

// cycle returns how many holds the shortest way back to s has, and one that is s alone only if
// there is no other.
func (g reference) cycle(s driver.Status) int {
	alone := 0
	level, seen := []driver.Status{s}, map[driver.HoldID]bool{}
	for n := 1; len(level) > 0; n++ {
		var next []driver.Status
		for _, at := range level {
			for _, h := range g.inTheWay(at) {
				switch {
				case h.HoldID == s.HoldID && n == 1:
					alone = 1
				case h.HoldID == s.HoldID:
					return n
				case !seen[h.HoldID]:
					seen[h.HoldID] = true
					next = append(next, h)
				}
			}
		}
		level = next
	}
	return alone
}

func (g reference) inTheWay(s driver.Status) []driver.Status {
	r := g[s.Waits.Resource]
	all := slices.Clone(r.Holds)
	ahead := r.Places
	if i := placeOf(r, s.Waits.Place); i >= 0 {
		ahead = ahead[:i]
	}
	for _, other := range g {
		for _, h := range other.Holds {
			if h.Waits.Resource == s.Waits.Resource && slices.ContainsFunc(ahead, func(p driver.Place) bool { return p.ID == h.Waits.Place }) {
				all = append(all, h)
			}
		}
	}
	return all
}

// random returns what a store might show, and sometimes what none should.
func random(rnd *rand.Rand) (holds []driver.Status, places []driver.Place) {
	resources := []string{"a", "b", "c", "d", "e", "f"}[:1+rnd.IntN(6)]
	locks := []string{"x", "y", "z", "u", "v", "w", "1", "2", "3"}[:1+rnd.IntN(9)]
	pick := func(of []string) string { return of[rnd.IntN(len(of))] }
	kind := func() (driver.Mode, int) {
		if rnd.IntN(3) > 0 {
			return driver.Exclusive, 0
		}
		return driver.Shared, rnd.IntN(5) - 1
	}
	for range rnd.IntN(8) {
		p := driver.Place{Resource: pick(resources), ID: driver.NewPlaceID(), LockID: pick(locks), Fair: rnd.IntN(3) > 0, Left: time.Second}
		p.Mode, p.Limit = kind()
		places = append(places, p)
	}
	for range rnd.IntN(10) {
		h := driver.Status{Resource: pick(resources), LockID: pick(locks), HoldID: driver.NewHoldID(), Left: time.Second}
		h.Mode, h.Limit = kind()
		if rnd.IntN(20) == 0 {
			h.Left, h.Released = 0, rnd.IntN(2) == 0
		}
		if rnd.IntN(8) > 0 {
			h.Waits = &driver.Waits{Resource: pick(resources), Since: time.Unix(int64(rnd.IntN(5)), 0)}
			h.Waits.Mode, h.Waits.Limit = kind()
			h.Waits.Limit = max(h.Waits.Limit, 0)
			if len(places) > 0 && rnd.IntN(3) > 0 {
				p := places[rnd.IntN(len(places))]
				h.Waits.Place = p.ID
				if rnd.IntN(10) > 0 {
					h.Waits.Resource, h.Waits.Mode, h.Waits.Limit = p.Resource, p.Mode, p.Limit
				}
			}
		}
		holds = append(holds, h)
	}
	return holds, places
}

// What the package finds is what the model's rule says.
func TestAgreesWithTheModel(t *testing.T) {
	n := 30_000
	if testing.Short() {
		n = 5_000
	}
	found := 0
	for seed := range uint64(n) {
		holds, places := random(rand.New(rand.NewPCG(seed, 1)))
		g := deadlock.GraphOf(holds, places)
		var got []string
		for _, path := range all(t, g) {
			got = append(got, fmt.Sprint(path[0].Holds.HoldID, len(path)))
		}
		if want := reference(deadlock.GraphOf(holds, places)).victims(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v, of %+v and %+v", seed, got, want, holds, places)
		}
		found += len(got)
		reduced := reference(deadlock.GraphOf(holds, places))
		reduced.reduce()
		g.Reduce()
		for name, r := range g {
			if len(r.Holds) != len(reduced[name].Holds) || len(r.Places) != len(reduced[name].Places) {
				t.Fatalf("seed %d: of %s are left %+v, want %+v", seed, name, r, reduced[name])
			}
		}
		v, path := g.Victim()
		if (path == nil) != (got == nil) || path != nil && fmt.Sprint(v.HoldID, len(path)) != got[0] {
			t.Fatalf("seed %d: the victim is %v, by a path of %d, want %v", seed, v.HoldID, len(path), got)
		}
	}
	if found < n/20 {
		t.Errorf("only %d deadlocks in %d graphs", found, n)
	}
}
