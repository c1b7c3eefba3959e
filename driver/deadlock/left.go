package deadlock

import (
	"slices"

	"github.com/holdfast-go/holdfast/driver"
)

// left is what is left of a graph while it is reduced. What goes makes room for others in
// one resource alone, so only that resource is looked at again: the work grows with what
// there is, not with its square.
type left struct {
	resources []*resource
	holds     []hold
	todo      []*resource     // those that something has left, each once
	touched   []int           // components that have lost a hold
	given     <-chan struct{} // closed when the search is given up; nil: it is not
	nodes     int             // of a search: see resource.node. Those of the holds are their indexes
}

// resource is a record with those who wait for it.
type resource struct {
	record *Record
	holds  []int // of left.holds
	places []place
	notes  []int // of the holds whose holders wait for it and note no place
	block  blockers
	listed bool // it is in left.todo
	// node is that of its holds in a search, and node+1+i that of those ahead of place i+1.
	node int
}

type hold struct {
	*driver.Status
	at    *resource
	wants *resource
	place int // of wants.places, or noPlace
	gone  bool
	// component is what Tarjan's algorithm has found: holds of one component wait for each
	// other. noComponent: its holder waits for nobody who waits for it.
	component int
}

const (
	noPlace     = -1
	noComponent = 0
)

type place struct {
	*driver.Place
	notes []int // of the holds whose holders wait there
	gone  bool
}

// newLeft returns all of a graph.
func newLeft(g Graph) *left {
	l := new(left)
	names := make([]string, 0, len(g))
	for name := range g {
		names = append(names, name)
	}
	slices.Sort(names) // the same graph has the same paths
	by := make(map[string]*resource, len(g))
	for _, name := range names {
		r := &resource{record: g[name]}
		by[name], l.resources = r, append(l.resources, r)
	}
	type placeOf struct {
		at *resource
		id driver.PlaceID
	}
	places := make(map[placeOf]int)
	for _, r := range l.resources {
		for i := range r.record.Places {
			r.places = append(r.places, place{Place: &r.record.Places[i]})
			places[placeOf{r, r.record.Places[i].ID}] = i
		}
		for i := range r.record.Holds {
			r.holds = append(r.holds, len(l.holds))
			l.holds = append(l.holds, hold{Status: &r.record.Holds[i], at: r, place: noPlace})
			r.block.add(&r.record.Holds[i], 1)
		}
	}
	for i := range l.holds {
		h := &l.holds[i]
		if h.Waits == nil {
			continue
		}
		h.wants = by[h.Waits.Resource]
		switch at, ok := places[placeOf{h.wants, h.Waits.Place}]; {
		case h.wants == nil:
		case h.Waits.Place.IsZero():
			h.wants.notes = append(h.wants.notes, i)
		case ok:
			h.place = at
			h.wants.places[at].notes = append(h.wants.places[at].notes, i)
		}
	}
	node := len(l.holds)
	for _, r := range l.resources {
		r.node = node
		node += 1 + len(r.places)
	}
	l.nodes = node
	return l
}

// reduce takes away what goes by itself.
func (l *left) reduce() {
	for i := range l.holds {
		h := &l.holds[i]
		if h.Waits == nil || h.Released || !h.Live() || h.wants == nil || h.place == noPlace && !h.Waits.Place.IsZero() {
			// The last of these: a note whose place is gone is one of the past. The wait is
			// over, its program was killed, or it will note another place.
			l.drop(i)
		}
	}
	for _, r := range l.resources {
		l.list(r)
	}
	l.drain()
}

func (l *left) list(r *resource) {
	if !r.listed {
		r.listed = true
		l.todo = append(l.todo, r)
	}
}

// drain looks at the resources where something has gone, until nothing more goes.
func (l *left) drain() {
	for ; len(l.todo) > 0 && !l.givenUp(); l.todo = l.todo[1:] {
		r := l.todo[0]
		r.listed = false
		if r.block.exclusive > 0 {
			continue // nobody has room
		}
		var ahead blockers
		for i := range r.places {
			if ahead.exclusive > 0 {
				break // nobody behind it has room
			}
			switch p := &r.places[i]; {
			case p.gone:
			case !r.block.exclude(p.LockID, p.Mode, p.Limit, &ahead):
				l.dropPlace(r, i)
			case p.Fair:
				ahead.addPlace(p.Place)
			}
		}
		for _, i := range r.notes {
			h := &l.holds[i]
			of := &ahead
			if h.at == r && h.Mode == driver.Shared && h.Waits.Mode == driver.Shared {
				of = new(blockers) // it is nested: no place stops it
			}
			if !h.gone && !r.block.exclude("", h.Waits.Mode, h.Waits.Limit, of) {
				l.drop(i)
			}
		}
	}
}

func (l *left) givenUp() bool {
	select {
	case <-l.given:
		return true
	default:
		return false
	}
}

// drop takes a hold away.
func (l *left) drop(i int) {
	h := &l.holds[i]
	if h.gone {
		return
	}
	h.gone = true
	h.at.block.add(h.Status, -1)
	l.list(h.at)
	if h.component != noComponent {
		l.touched = append(l.touched, h.component)
	}
}

// dropPlace takes a place away, with the holds whose holders wait there.
func (l *left) dropPlace(r *resource, i int) {
	p := &r.places[i]
	if p.gone {
		return
	}
	p.gone = true
	l.list(r)
	for _, h := range p.notes {
		l.drop(h)
	}
}

// remaining returns what is left of a resource.
func (l *left) remaining(r *resource) (holds []driver.Status, places []driver.Place) {
	for _, i := range r.holds {
		if !l.holds[i].gone {
			holds = append(holds, *l.holds[i].Status)
		}
	}
	for _, p := range r.places {
		if !p.gone {
			places = append(places, *p.Place)
		}
	}
	return holds, places
}

// blockers are holds and places that may be in the way, counted by what matters in the rule
// of all stores (model.Refusal).
type blockers struct {
	all, exclusive int
	limits         map[int]int // how many shared ones have a limit
	lockIDs        map[string]int
}

func (b *blockers) add(h *driver.Status, n int) { b.count(h.LockID, h.Mode, h.Limit, n) }

func (b *blockers) addPlace(p *driver.Place) { b.count(p.LockID, p.Mode, p.Limit, 1) }

func (b *blockers) count(lockID string, mode driver.Mode, limit, n int) {
	if b.lockIDs == nil {
		b.limits, b.lockIDs = make(map[int]int), make(map[string]int)
	}
	b.all += n
	if lockID != "" { // else it is not known, and is taken for that of nobody else
		b.lockIDs[lockID] += n
	}
	if mode == driver.Exclusive {
		b.exclusive += n
	} else {
		b.limits[limit] += n
	}
}

// exclude reports whether the holds, and those ahead in the queue, leave no room. A limit that
// is not known is the asker's own: it agrees with all.
func (b *blockers) exclude(lockID string, mode driver.Mode, limit int, ahead *blockers) bool {
	for _, of := range [...]*blockers{b, ahead} {
		switch {
		case of.all == 0:
		case mode == driver.Exclusive, of.exclusive > 0, of.lockIDs[lockID] > 0:
			return true
		case limit >= 0 && of.all > of.limits[limit]+of.limits[driver.LimitUnknown]:
			return true // somebody's limit differs
		}
	}
	return limit > 0 && b.all+ahead.all >= limit
}
