// Package deadlock finds those that wait for each other, in what a store shows of its
// holds and waiters. It reads no store and has no clock.
package deadlock

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Link is a holder of one resource that waits for another.
type Link struct {
	Holds    driver.Status
	WaitsFor string
}

// Graph has holds and waiters by resource. It should have all of each resource that it has.
// A resource that it has not counts as free.
//
// A server may show its caller less than there is: no lock IDs, which are then empty and equal
// no others, and not all holds, places and notes. What is left out is in nobody's way, so
// deadlocks may be missed, but none is found that is none. Notes that have lost only their
// places must be left out, too: they would look like those of waiters without a place.
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
	l := newLeft(g)
	l.reduce()
	for _, r := range l.resources {
		r.record.Holds, r.record.Places = l.remaining(r)
	}
}

// Victim returns the hold whose holder noted last that it waits, of those that wait for
// each other, and the path from it back to it: one of them has to give up, and all of them
// find the same, also those who see no hold IDs. Others that are left only wait for these.
// The path is nil if there are none. The graph must be reduced.
func (g Graph) Victim() (driver.Status, []Link) {
	paths := newLeft(g).paths(1)
	if paths == nil {
		return driver.Status{}, nil
	}
	return paths[0][0].Holds, paths[0]
}

// All returns the paths of all deadlocks, but at most limit, each as Victim does, as if of
// those before the victim had given up. The graph need not be reduced, and is left as it is.
// There are graphs of which the search takes as long as the square of their size, and whoever
// may lock can make one. The error is that of ctx, when the search was given up.
func (g Graph) All(ctx context.Context, limit int) (paths [][]Link, err error) {
	l := newLeft(g)
	l.given = ctx.Done()
	l.reduce()
	paths = l.paths(limit)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return paths, nil
}

func (r *Record) place(id driver.PlaceID) int {
	return slices.IndexFunc(r.Places, func(p driver.Place) bool { return p.ID == id })
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
