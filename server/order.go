package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// A line and the store's queue have the same order, but for two: who comes from another
// server has a place there already, and a place may be lost, as after an outage. The store
// decides whom it serves first, and that one must be the head of its line: only heads ask
// at each signal, and until it asks, its place keeps all others waiting.
//
// Each refusal names the first four who are ahead, which is enough to put the head right. A
// fair waiter that comes to a longer queue looks through all of it once for its own place.

// namedAhead is how many a refusal names at most.
const namedAhead = 4

// ahead returns those who are served before the waiter, as far as it is known, and then its
// own place, if it has one that the refusal says nothing of.
func (st *waitSession) ahead(err error) []driver.Place {
	a := st.a
	st.missed = false
	var held *driver.HeldError
	if !errors.As(err, &held) {
		return nil
	}
	mayBeFurther := len(held.Ahead) == namedAhead && !holds(held.Ahead, st.w.place)
	if !a.q.Place.IsZero() { // then it has one, which is either new and the last, or an old one
		mayBeFurther = held.Position >= namedAhead && held.Position+1 < held.Waiters
	}
	if st.looked || a.ours || !a.q.Fair || !st.w.line.queue || !mayBeFurther {
		return held.Ahead
	}
	all, found, err := a.queueBefore(st.w.place)
	st.looked, st.missed = err == nil, err != nil
	if found {
		return all
	}
	return held.Ahead
}

// lookAgain is how soon a look for the place is repeated that had no answer.
const lookAgain = time.Second

// queueBefore returns the store's queue up to the place, and whether that is there. A store
// that does not answer soon does not keep the waiter.
func (a *acquisition) queueBefore(id driver.PlaceID) (queue []driver.Place, found bool, err error) {
	s, began := a.x.s, time.Now()
	ctx, cancel := context.WithTimeout(a.x.r.Context(), watchTimeout)
	defer cancel()
	for p, failed := range driver.Waiters(ctx, s.store, driver.Filter{Resource: a.q.Resource}) {
		if err = failed; err != nil {
			break
		}
		queue = append(queue, p)
		if found = p.ID == id; found {
			break
		}
	}
	s.opts.Observer.storeCall(a.x.r.Context(), "waiters", began, err)
	return queue, found, err
}

func holds(places []driver.Place, id driver.PlaceID) bool {
	return slices.ContainsFunc(places, func(p driver.Place) bool { return p.ID == id })
}

// reorder puts those of the line before w that the store serves before it, and w before
// those that it serves later. lines.mu is held.
func (l *line) reorder(w *waiter, e *driver.HeldError, ahead []driver.Place) {
	if !l.queue {
		return
	}
	allKnown := w.placed && w.kind.fair && e.Position == len(ahead)
	if i := slices.IndexFunc(ahead, func(p driver.Place) bool { return p.ID == w.place }); i >= 0 {
		ahead, allKnown = ahead[:i], true
		w.tried, w.placed = true, true
	}
	for _, p := range ahead {
		v := l.places[p.ID]
		if v == nil {
			continue
		}
		if !v.tried {
			v.tried, v.placed = true, true
			if v.present && !v.asking {
				invite(v.turn) // to keep its place
			}
		}
		if v.seq > w.seq {
			l.moveForward(v, l.index(w))
		}
	}
	if allKnown {
		end := l.index(w)
		i := slices.IndexFunc(l.waiters[:end], func(v *waiter) bool {
			return !holds(ahead, v.place) && (v.kind.fair || !v.placed)
		})
		if i >= 0 {
			l.moveForward(w, i)
		}
	}
	i := slices.IndexFunc(l.waiters, func(w *waiter) bool { return w.present })
	if first := l.waiters[i]; first != l.head {
		l.lead(first)
		if first != w {
			invite(first.turn)
		}
	}
}

// moveForward makes w the i-th of the line. lines.mu is held.
func (l *line) moveForward(w *waiter, i int) {
	for j := l.index(w); j > i; j-- {
		before := l.waiters[j-1]
		w.seq, before.seq = before.seq, w.seq
		l.waiters[j-1], l.waiters[j] = w, before
	}
}
