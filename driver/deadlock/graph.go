// Package deadlock finds those that wait for each other, in what a store shows of its
// holds and waiters. It reads no store and has no clock.
package deadlock

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Link is a holder of one resource that waits for another.
type Link struct {
	Holds    driver.Status
	WaitsFor string
}

// Graph has holds and waiters by resource. It must have all of each resource that it has.
// A resource that it has not counts as free.
type Graph map[string]*Record

// Record has the holds of a resource, and its waiters in their order.
type Record struct {
	Holds  []driver.Status
	Places []driver.Place
}

// GraphOf returns what may be in a deadlock among the holds and waiters of a store, which
// must be complete: the resources whose holders wait, and those that they wait for. The
// waiters of a resource are in their order.
func GraphOf(holds []driver.Status, places []driver.Place) Graph {
	g := make(Graph)
	for _, h := range holds {
		if h.Waits != nil {
			g[h.Resource], g[h.Waits.Resource] = new(Record), new(Record)
		}
	}
	for _, h := range holds {
		if r := g[h.Resource]; r != nil {
			r.Holds = append(r.Holds, h)
		}
	}
	for _, p := range places {
		if r := g[p.Resource]; r != nil {
			r.Places = append(r.Places, p)
		}
	}
	return g
}

// Reduce takes away what goes by itself, until nothing more does: a hold whose holder does
// not wait or that cannot be renewed, a hold whose holder waits for something that has
// room, and a place that has room. What is left waits for what is left.
//
// To follow the notes from hold to hold until one comes back would not do: it would find
// cycles among the holders of a semaphore that another holder will release, and miss those
// that wait behind a place.
func (g Graph) Reduce() {
	for changed := true; changed; {
		changed = false
		for _, r := range g {
			before := len(r.Holds) + len(r.Places)
			r.Holds = slices.DeleteFunc(r.Holds, func(s driver.Status) bool {
				return s.Waits == nil || s.Released || !s.Live() || g.hasRoom(s)
			})
			r.Places = slices.DeleteFunc(r.Places, func(p driver.Place) bool { return r.hasRoom(p, driver.HoldID{}) })
			changed = changed || len(r.Holds)+len(r.Places) < before
		}
	}
}

// hasRoom reports whether nothing is in the way of what the holder waits for. A note whose
// place is gone is one of the past: the wait is over, its program was killed, or it will
// note another place.
func (g Graph) hasRoom(s driver.Status) bool {
	w := s.Waits
	r := g[w.Resource]
	if r == nil {
		return true
	}
	p := driver.Place{Mode: w.Mode, Limit: w.Limit}
	var nested driver.HoldID
	switch {
	case !w.Place.IsZero():
		i := r.place(w.Place)
		if i < 0 {
			return true
		}
		p = r.Places[i]
	case s.Resource == w.Resource && s.Mode == driver.Shared:
		nested = s.HoldID // no place stops it
	}
	return r.hasRoom(p, nested)
}

func (r *Record) place(id driver.PlaceID) int {
	return slices.IndexFunc(r.Places, func(p driver.Place) bool { return p.ID == id })
}

// hasRoom reports whether the waiter would be granted the resource by the rule of all
// stores, beside what is left.
func (r *Record) hasRoom(p driver.Place, nested driver.HoldID) bool {
	q := driver.AcquireRequest{
		LockID: p.LockID, Mode: p.Mode, Limit: max(p.Limit, 0), OwnLimit: p.Limit < 0, Place: p.ID, Fair: p.Fair, Nested: nested,
	}
	return model.Refusal(model.RecordOf(r.Holds, r.Places), 0, q) == nil
}

// Victim returns the hold whose holder noted last that it waits, of those that wait for
// each other, and the path from it back to it: one of them has to give up, and all of them
// find the same. Others that are left only wait for these. The path is nil if there are
// none. The graph must be reduced.
func (g Graph) Victim() (driver.Status, []Link) {
	var stuck []*driver.Status
	for _, r := range g {
		for i := range r.Holds {
			stuck = append(stuck, &r.Holds[i])
		}
	}
	slices.SortFunc(stuck, byNote)
	for _, s := range slices.Backward(stuck) {
		if path := g.path(*s); path != nil {
			return *s, path
		}
	}
	return driver.Status{}, nil
}

// All returns the paths of all deadlocks, each as Victim does, as if of those before the
// victim had given up. It reduces the graph, and leaves of it what is in no deadlock then.
func (g Graph) All() (paths [][]Link) {
	for {
		g.Reduce()
		s, path := g.Victim()
		if path == nil {
			return paths
		}
		paths = append(paths, path)
		r := g[s.Resource]
		r.Holds = slices.DeleteFunc(r.Holds, func(h driver.Status) bool { return h.HoldID == s.HoldID })
		if w := g[s.Waits.Resource]; w != nil {
			w.Places = slices.DeleteFunc(w.Places, func(p driver.Place) bool { return p.ID == s.Waits.Place })
		}
	}
}

// Asked returns when those on the path have last asked for their places.
func (g Graph) Asked(path []Link) map[driver.PlaceID]time.Time {
	asked := make(map[driver.PlaceID]time.Time)
	for _, d := range path {
		r := g[d.WaitsFor]
		if i := r.place(d.Holds.Waits.Place); i >= 0 {
			asked[r.Places[i].ID] = r.Places[i].Asked
		}
	}
	return asked
}

// AllAsked reports whether all on the path that have places have asked for them since. A
// place outlives its waiter, and so does a note.
func (g Graph) AllAsked(path []Link, since map[driver.PlaceID]time.Time) bool {
	for id, at := range g.Asked(path) {
		if before, known := since[id]; !known || !at.After(before) {
			return false
		}
	}
	return true
}

// byNote orders holds whose holders wait by when that was noted.
func byNote(a, b *driver.Status) int {
	return cmp.Or(a.Waits.Since.Compare(b.Waits.Since), bytes.Compare(a.HoldID[:], b.HoldID[:]))
}

// path returns those that wait for each other, from the holder of s on: it waits for a
// resource that the next one holds, or waits for ahead of it. It is the holder alone only
// if nobody else is in its way.
func (g Graph) path(s driver.Status) []Link {
	type step struct {
		hold driver.Status
		from *step
	}
	todo := []*step{{hold: s}}
	seen := map[driver.HoldID]bool{}
	var alone []Link
	for ; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if g[at.hold.Waits.Resource] == nil {
			continue
		}
		for _, next := range g.inTheWay(at.hold) {
			switch {
			case next.HoldID == s.HoldID && at.from == nil:
				alone = []Link{{Holds: s, WaitsFor: s.Waits.Resource}}
			case next.HoldID == s.HoldID:
				var path []Link
				for ; at != nil; at = at.from {
					path = append(path, Link{Holds: at.hold, WaitsFor: at.hold.Waits.Resource})
				}
				slices.Reverse(path)
				return path
			case !seen[next.HoldID]:
				seen[next.HoldID] = true
				todo = append(todo, &step{next, at})
			}
		}
	}
	return alone
}

// inTheWay returns the holds left that the holder of s waits for: those of the resource,
// and those of others who are ahead in its queue.
func (g Graph) inTheWay(s driver.Status) []driver.Status {
	r := g[s.Waits.Resource]
	all := slices.Clone(r.Holds)
	ahead := r.Places
	if i := r.place(s.Waits.Place); i >= 0 {
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
