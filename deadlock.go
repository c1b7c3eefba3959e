package holdfast

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
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
type Deadlocked = deadlock.Link

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

// readGraph reads the record of a resource, and those to which its holders' notes lead. It
// returns nil if these are too many.
func (c *Client) readGraph(ctx context.Context, resource string) (deadlock.Graph, error) {
	g := make(deadlock.Graph)
	for todo := []string{resource}; len(todo) > 0; todo = todo[1:] {
		if g[todo[0]] != nil {
			continue
		}
		if len(g) == mostRecords {
			return nil, nil
		}
		r := new(deadlock.Record)
		for s, err := range c.all(ctx, Filter{Resource: todo[0]}) {
			if err != nil {
				return nil, err
			}
			r.Holds = append(r.Holds, s)
			if s.Waits != nil {
				todo = append(todo, s.Waits.Resource)
			}
		}
		for p, err := range c.Waiters(ctx, Filter{Resource: todo[0]}) {
			if err != nil {
				return nil, err
			}
			r.Places = append(r.Places, p)
		}
		g[todo[0]] = r
	}
	return g, nil
}

// worksUnder reports whether the acquirer's caller works under that hold. One without an ID is
// of somebody else: a server leaves that out.
func (a *acquirer) worksUnder(id HoldID) bool {
	return !id.IsZero() && (slices.ContainsFunc(a.under, func(h *Hold) bool { return h.ref.HoldID == id }) ||
		slices.ContainsFunc(a.outer, func(ref driver.HoldRef) bool { return ref.HoldID == id }))
}

// Deadlock returns callers that wait for each other, as DeadlockError does, among the
// holders of the resource, those of the resources that they wait for, and so on. It
// returns nil if there are none, or more than 64 such resources. It looks once: a holder
// may just be about to go on. The error is ErrUnsupported if the store keeps no queue.
func (c *Client) Deadlock(ctx context.Context, resource string) ([]Deadlocked, error) {
	if c.invalid != nil {
		return nil, wrap("look for a deadlock of", resource, c.invalid)
	}
	g, err := c.readGraph(ctx, resource)
	if err != nil {
		return nil, err
	}
	g.Reduce()
	_, path := g.Victim()
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
	g.Reduce()
	last, path := g.Victim()
	w.stuck = path != nil
	switch {
	case path == nil || !w.a.worksUnder(last.HoldID):
		w.found = HoldID{}
	case last.HoldID != w.found:
		w.found, w.asked = last.HoldID, g.Asked(path)
	case g.AllAsked(path, w.asked): // else one of them may have been killed
		return path
	}
	return nil
}
