package holdfast

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// A caller that waits for a resource while it holds others (by the ctx that Do or Bind
// gave) notes that on its holds, in their renewals. Callers that wait for each other can
// then see it in the store, and one of them gives up.

const (
	// noteAfter is how long a wait lasts before it is noted.
	noteAfter = 5 * time.Second
	// mostRecords is how many records a look for a deadlock reads. If it takes more, the
	// look says nothing.
	mostRecords = 64
)

// lookAfter are the times at which a waiter looks for a deadlock, since it began to wait.
// lookEvery is the pause after the last of them, and lookAgain that after a look which found
// a deadlock: the one that is to give up looks twice, and others may be left then.
var lookAfter = [...]time.Duration{noteAfter, 8 * time.Second, 12 * time.Second}

const (
	lookEvery = 30 * time.Second
	lookAgain = 3 * time.Second
)

// DeadlockError names a deadlock. It is ErrDeadlock.
type DeadlockError struct {
	// Path are those that wait for each other: each waits for a resource that the next one
	// holds, or waits for ahead of it, and the last one for one that the first holds. The
	// first is the caller.
	Path []Deadlocked
}

// Deadlocked is a holder of one resource that waits for another.
type Deadlocked struct {
	Holds    Status
	WaitsFor string
}

// Error tells who waits for whom.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("holdfast: deadlock: ")
	for i, d := range e.Path {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "you hold %q and wait for %q", d.Holds.Resource, d.WaitsFor)
		case d.Holds.Resource == e.Path[i-1].WaitsFor:
			fmt.Fprintf(&b, ", which is held by %s, who waits for %q", d.Holds.Holder(), d.WaitsFor)
		default:
			fmt.Fprintf(&b, ", where %s is ahead", d.Holds.Holder())
		}
	}
	return b.String()
}

// Is makes every DeadlockError an ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// waitsNote is what the hold's next renewal says that its holder waits for. c.mu is held.
func (h *Hold) waitsNote() *driver.Waits {
	if len(h.waits) == 0 {
		return nil
	}
	return h.client.waitsOf(h.waits[len(h.waits)-1])
}

// waitsOf is the note of an acquirer's wait. c.mu is held.
func (c *Client) waitsOf(a *acquirer) *driver.Waits {
	w := &driver.Waits{Resource: a.q.Resource, Mode: a.q.Mode, Limit: a.q.Limit}
	if l := c.queuesOf(a)[a.q.Resource]; !l.unplaced {
		w.Place = l.stored.id
	}
	return w
}

func sameWaits(a, b *driver.Waits) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// noteWait makes the holds that the acquirer's caller works under say, or no longer say,
// that it waits. It reports whether they do not say so yet.
func (c *Client) noteWait(a *acquirer, waits bool) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := c.waitsOf(a).Place
	switch {
	case a.over || !waits && !a.noted:
		a.over = a.over || !waits
		return false
	case waits && a.noted && (place == a.notedPlace || c.queuesOf(a)[a.q.Resource].stored.id.IsZero()): // it will have one soon
		return false
	}
	a.noted, a.notedPlace, a.over = waits, place, !waits
	now := c.clock()
	for _, h := range a.under {
		h.waits = slices.DeleteFunc(h.waits, func(other *acquirer) bool { return other == a })
		if waits {
			h.waits = append(h.waits, a)
		}
		if h.state == live {
			h.renewAt = min(h.renewAt, now)
			c.armFor(h, now)
		}
	}
	return true
}

// isTold reports whether the store's note on the hold is as it is to be, as far as the
// Client knows. c.mu is held.
func (h *Hold) isTold() bool { return sameWaits(h.waitsNote(), h.told) }

// graph is what the store says of the resources that a deadlock may be among.
type graph map[string]*node

type node struct {
	holds  []Status
	places []Place
}

// readGraph reads the record of a resource, and those to which its holders' notes lead. It
// returns nil if these are too many.
func (c *Client) readGraph(ctx context.Context, resource string) (graph, error) {
	g := make(graph)
	for todo := []string{resource}; len(todo) > 0; todo = todo[1:] {
		if g[todo[0]] != nil {
			continue
		}
		if len(g) == mostRecords {
			return nil, nil
		}
		n := new(node)
		for s, err := range c.all(ctx, Filter{Resource: todo[0]}) {
			if err != nil {
				return nil, err
			}
			n.holds = append(n.holds, s)
			if s.Waits != nil {
				todo = append(todo, s.Waits.Resource)
			}
		}
		for p, err := range c.Waiters(ctx, Filter{Resource: todo[0]}) {
			if err != nil {
				return nil, err
			}
			n.places = append(n.places, p)
		}
		g[todo[0]] = n
	}
	return g, nil
}

// reduce takes away what goes by itself, until nothing more does: a hold whose holder does
// not wait or that cannot be renewed, a hold whose holder waits for something that has
// room, and a place that has room. What is left waits for what is left.
//
// To follow the notes from hold to hold until one comes back would not do: it would find
// cycles among the holders of a semaphore that another holder will release, and miss those
// that wait behind a place.
func (g graph) reduce() {
	for changed := true; changed; {
		changed = false
		for _, n := range g {
			before := len(n.holds) + len(n.places)
			n.holds = slices.DeleteFunc(n.holds, func(s Status) bool {
				return s.Waits == nil || s.Released || !s.Live() || g.hasRoom(s)
			})
			n.places = slices.DeleteFunc(n.places, func(p Place) bool { return n.hasRoom(p, HoldID{}) })
			changed = changed || len(n.holds)+len(n.places) < before
		}
	}
}

// hasRoom reports whether nothing is in the way of what the holder waits for. A note whose
// place is gone is one of the past: the wait is over, its program was killed, or it will
// note another place.
func (g graph) hasRoom(s Status) bool {
	w := s.Waits
	n := g[w.Resource]
	if n == nil {
		return true
	}
	p := Place{Mode: w.Mode, Limit: w.Limit}
	var nested HoldID
	switch {
	case !w.Place.IsZero():
		i := n.place(w.Place)
		if i < 0 {
			return true
		}
		p = n.places[i]
	case s.Resource == w.Resource && s.Mode == Shared:
		nested = s.HoldID // no place stops it
	}
	return n.hasRoom(p, nested)
}

func (n *node) place(id driver.PlaceID) int {
	return slices.IndexFunc(n.places, func(p Place) bool { return p.ID == id })
}

// hasRoom reports whether the waiter would be granted the resource by the rule of all
// stores, beside what is left.
func (n *node) hasRoom(p Place, nested HoldID) bool {
	r := model.RecordOf(n.holds, n.places)
	q := driver.AcquireRequest{LockID: p.LockID, Mode: p.Mode, Limit: max(p.Limit, 0), OwnLimit: p.Limit < 0, Place: p.ID, Fair: p.Fair, Nested: nested}
	return model.Refusal(r, 0, q) == nil
}

// victim returns the hold whose holder noted last that it waits, of those that wait for
// each other, and the path from it back to it: one of them has to give up, and all of them
// find the same. Others that are left only wait for these.
func (g graph) victim() (Status, []Deadlocked) {
	var stuck []*Status
	for _, n := range g {
		for i := range n.holds {
			stuck = append(stuck, &n.holds[i])
		}
	}
	slices.SortFunc(stuck, byNote)
	for _, s := range slices.Backward(stuck) {
		if path := g.path(*s); path != nil {
			return *s, path
		}
	}
	return Status{}, nil
}

// asked returns when those on the path have last asked for their places.
func (g graph) asked(path []Deadlocked) map[driver.PlaceID]time.Time {
	asked := make(map[driver.PlaceID]time.Time)
	for _, d := range path {
		n := g[d.WaitsFor]
		if i := n.place(d.Holds.Waits.Place); i >= 0 {
			asked[n.places[i].ID] = n.places[i].Asked
		}
	}
	return asked
}

// allAsked reports whether all on the path that have places have asked for them since. A
// place outlives its waiter, and so does a note.
func (g graph) allAsked(path []Deadlocked, since map[driver.PlaceID]time.Time) bool {
	for id, at := range g.asked(path) {
		if before, known := since[id]; !known || !at.After(before) {
			return false
		}
	}
	return true
}

// worksUnder reports whether the acquirer's caller works under that hold.
func (a *acquirer) worksUnder(id HoldID) bool {
	return slices.ContainsFunc(a.under, func(h *Hold) bool { return h.ref.HoldID == id }) ||
		slices.ContainsFunc(a.outer, func(ref driver.HoldRef) bool { return ref.HoldID == id })
}

// byNote orders holds whose holders wait by when that was noted.
func byNote(a, b *Status) int {
	return cmp.Or(a.Waits.Since.Compare(b.Waits.Since), bytes.Compare(a.HoldID[:], b.HoldID[:]))
}

// path returns those that wait for each other, from the holder of s on: it waits for a
// resource that the next one holds, or waits for ahead of it. It is the holder alone only
// if nobody else is in its way.
func (g graph) path(s Status) []Deadlocked {
	type step struct {
		hold Status
		from *step
	}
	todo := []*step{{hold: s}}
	seen := map[HoldID]bool{}
	var alone []Deadlocked
	for ; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		n := g[at.hold.Waits.Resource]
		if n == nil {
			continue
		}
		for _, next := range g.inTheWay(at.hold) {
			switch {
			case next.HoldID == s.HoldID && at.from == nil:
				alone = []Deadlocked{{Holds: s, WaitsFor: s.Waits.Resource}}
			case next.HoldID == s.HoldID:
				var path []Deadlocked
				for ; at != nil; at = at.from {
					path = append(path, Deadlocked{Holds: at.hold, WaitsFor: at.hold.Waits.Resource})
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
func (g graph) inTheWay(s Status) []Status {
	n := g[s.Waits.Resource]
	all := slices.Clone(n.holds)
	ahead := n.places
	if i := n.place(s.Waits.Place); i >= 0 {
		ahead = ahead[:i]
	}
	for _, other := range g {
		for _, h := range other.holds {
			if h.Waits.Resource == s.Waits.Resource && slices.ContainsFunc(ahead, func(p Place) bool { return p.ID == h.Waits.Place }) {
				all = append(all, h)
			}
		}
	}
	return all
}

// Deadlock returns callers that wait for each other, as DeadlockError does, among the
// holders of the resource, those of the resources that they wait for, and so on. It
// returns nil if there are none, or more than 64 such resources. It looks once: a holder
// may just be about to go on. The error is ErrUnsupported if the store keeps no queue.
func (c *Client) Deadlock(ctx context.Context, resource string) ([]Deadlocked, error) {
	g, err := c.readGraph(ctx, resource)
	if err != nil {
		return nil, err
	}
	g.reduce()
	_, path := g.victim()
	return path, nil
}

// watchDeadlock notes that the acquirer's caller waits, and looks for a deadlock from time
// to time. It calls end with a *DeadlockError if it finds the same one twice, and the
// caller is the one that is to give up.
func (c *Client) watchDeadlock(ctx context.Context, a *acquirer, end func(error)) {
	select {
	case <-time.After(noteAfter):
	case <-ctx.Done():
		return
	}
	defer c.noteOuter(ctx, a, false)
	w := lookout{c: c, a: a}
	n, looked := 0, c.clock()
	for next := looked; ; {
		if c.noteWait(a, true) && n > 0 {
			// Its place is another: others see the deadlock, if it is one, from now on. If
			// its place is another all the time, it is none.
			n, next = 1, min(looked+lookEvery, c.clock()+lookAgain)
		}
		if left := next - c.clock(); left > 0 {
			select {
			case <-time.After(min(left, lookAgain)):
			case <-ctx.Done():
				return
			}
			continue
		}
		c.noteOuter(ctx, a, true)
		if path := w.look(ctx); path != nil {
			end(&DeadlockError{Path: path})
			return
		}
		n, looked = n+1, c.clock()
		next = looked + w.pause(n)
	}
}

// lookout is the looks of one acquirer for a deadlock.
type lookout struct {
	c *Client
	a *acquirer

	stuck bool                         // the last look found a deadlock
	found HoldID                       // whose holder is to give up, if it is the acquirer's caller
	asked map[driver.PlaceID]time.Time // when those on its path had asked last
}

// pause returns the time until the next look, after n of them.
func (w *lookout) pause(n int) time.Duration {
	switch {
	case w.stuck:
		return lookAgain
	case n < len(lookAfter):
		return lookAfter[n] - lookAfter[n-1]
	}
	return lookEvery
}

// look returns the path of a deadlock that it finds for the second time, if the
// acquirer's caller is to give up.
func (w *lookout) look(ctx context.Context) []Deadlocked {
	g, err := w.c.readGraph(ctx, w.a.q.Resource)
	if err != nil || g == nil {
		w.found, w.stuck = HoldID{}, false
		return nil
	}
	g.reduce()
	last, path := g.victim()
	w.stuck = path != nil
	switch {
	case path == nil || !w.a.worksUnder(last.HoldID):
		w.found = HoldID{}
	case last.HoldID != w.found:
		w.found, w.asked = last.HoldID, g.asked(path)
	case g.allAsked(path, w.asked): // else one of them may have been killed
		return path
	}
	return nil
}
