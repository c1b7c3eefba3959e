package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/waitline"
)

const (
	// placesOfLine is how many of a line have places in the store's queue.
	placesOfLine = 16
	// pollLimit is the longest pause, on average, where the store sends no signal.
	pollLimit = 500 * time.Millisecond
	// keepAway is how long the line keeps the turn of a caller whose wait has ended, for its
	// next request with the same hold ID. The store keeps a fair place for
	// driver.FairPlaceTTL at most, and for three quarters of that at least, since it does not
	// note each request.
	keepAway = 7 * time.Second
	// overtime is how long after the end of a wait its last attempt may still be answered.
	overtime = 2 * time.Second
)

// waiterKey names an acquisition of one resource. Nobody gets at that of another, even if he
// knows its hold ID.
type waiterKey struct {
	caller string
	driver.HoldRef
}

// waiterKeyOf returns the key of a hold of the caller.
func (x *exchange) waiterKeyOf(ref driver.HoldRef) waiterKey {
	ref.Token = 0
	return waiterKey{x.caller.Name(), ref}
}

// wait acquires, and waits in line for as long as limit.
//
// The first attempt is made at once, however long the line is: the request may repeat one
// that was granted, and then others wait for its own hold. It has a place in the store's
// queue if it is fair, and cannot pass waiters that have one.
//
// The line keeps the turn of a caller that may repeat its request. It may not if the server
// made the hold ID, which nobody else knows.
func (a *acquisition) wait(limit time.Duration) (driver.Grant, error) {
	s := a.x.s
	w := &waitline.Waiter{
		Resource: a.q.Resource, LockID: a.q.LockID, Kind: waitline.Kind{Mode: a.q.Mode, Limit: a.q.Limit, Fair: a.q.Fair},
		Key: a.x.waiterKeyOf(a.ref()), Place: a.ownPlace(), AtOnce: true, Timeout: s.opts.StoreTimeout,
	}
	ask := s.lines.Join(w)
	g, err := a.askInTurn(w, ask, a.x.within(a.x.received.Add(limit)))
	if !a.ours && (errors.Is(err, driver.ErrHeld) || errors.Is(err, errNotSent) || errors.Is(err, errHungUp)) {
		w.Away(keepAway)
	} else {
		w.Leave()
	}
	return g, err
}

// askInTurn is wait once the waiter is in its line, and is to ask.
func (a *acquisition) askInTurn(w *waitline.Waiter, ask waitline.Ask, until time.Time) (driver.Grant, error) {
	x := a.x
	ctx, cancel := context.WithDeadline(x.r.Context(), until)
	defer cancel()
	latest := x.deadline() // of the next attempt
	look := placeLook{a: a, w: w, done: a.ours || !a.q.Fair || !x.s.store.Traits().Queue}
	for {
		a.q.Place = ask.Place
		a.placed = a.placed || !ask.Place.IsZero()
		g, err := a.once(earliest(latest, x.within(time.Now().Add(ask.Within))))
		latest = until.Add(overtime)
		var held *driver.HeldError
		switch {
		case err == nil:
			if errors.Is(w.Granted(), waitline.ErrForgotten) {
				a.unknown = max(a.unknown, 1)
				return driver.Grant{}, errReleased
			}
			return g, nil
		case x.r.Context().Err() != nil:
			return driver.Grant{}, errHungUp
		case errors.As(err, &held): // also by its own lock ID: who has that may be dead
			ahead, most := look.ahead(held)
			w.Refused(held, ahead, most)
		case definite(err):
			return driver.Grant{}, err
		default:
			_ = w.Silent(err)
		}
		if ask, err = a.turn(ctx, w, until); err != nil {
			return driver.Grant{}, err
		}
	}
}

// turn waits until it is the waiter's turn to ask again. The error is why the wait is over.
func (a *acquisition) turn(ctx context.Context, w *waitline.Waiter, until time.Time) (waitline.Ask, error) {
	x := a.x
	for {
		w.Interrupt = x.caller.Changed() // before it looks
		if err := a.allowed(); err != nil {
			return waitline.Ask{}, err
		}
		ask, err := w.Turn(ctx)
		switch {
		case err == nil:
			return ask, nil
		case errors.Is(err, waitline.ErrInterrupted): // most changes are of other rights
		case errors.Is(err, waitline.ErrClosed):
			return waitline.Ask{}, errDraining
		case errors.Is(err, waitline.ErrForgotten):
			a.cleanUp()
			return waitline.Ask{}, errReplaced
		case errors.Is(err, waitline.ErrReplaced):
			return waitline.Ask{}, errReplaced
		case x.r.Context().Err() != nil:
			return waitline.Ask{}, errHungUp
		default: // the time is over
			if !a.ours && !until.Equal(x.budget) {
				// One last attempt keeps the fair place in the store until the caller comes back.
				if ask, due := w.KeepPlace(); due {
					return ask, nil
				}
			}
			return waitline.Ask{}, a.refusal(w)
		}
	}
}

// refusal is what a waiter is told at the end: the last refusal that anybody of the line
// heard, and where it stands itself.
func (a *acquisition) refusal(w *waitline.Waiter) error {
	position, e, _ := w.Heard()
	if e == nil {
		e = &driver.HeldError{Resource: a.q.Resource, RetryAfter: driver.Unknown}
	}
	// It may be the answer to another one's request.
	e.BySelf = slices.ContainsFunc(e.Holders, func(s driver.Status) bool { return s.LockID == a.q.LockID && s.Left != 0 })
	e.Ahead = slices.DeleteFunc(e.Ahead, func(p driver.Place) bool { return p.ID == w.Place })
	e.Position = position
	if position != driver.NoPlace {
		e.Waiters = max(e.Waiters, position+1)
	}
	return e
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// placeLook looks for the place that a waiter may have in the store's queue already, because it
// comes from another server: it must stand in this line where the store will serve it. Each
// refusal names the first four who are ahead, which is enough to put the head of the line
// right. A fair waiter that comes to a longer queue looks through all of it, once.
type placeLook struct {
	a    *acquisition
	w    *waitline.Waiter
	done bool
}

const (
	// namedAhead is how many a refusal names at most.
	namedAhead = 4
	// lookAgain is how soon a look without an answer is repeated.
	lookAgain = time.Second
)

// ahead returns the places that are served before the waiter's, as far as they are known, and
// then its own, if it has one that the refusal does not mention. A store that does not answer
// soon does not keep the waiter: most, if it is not 0, is how long it pauses before the next look.
func (l *placeLook) ahead(held *driver.HeldError) (places []driver.Place, most time.Duration) {
	a, own := l.a, func(p driver.Place) bool { return p.ID == l.w.Place }
	mayBeFurther := len(held.Ahead) == namedAhead && !slices.ContainsFunc(held.Ahead, own)
	if !a.q.Place.IsZero() { // then it has one, which is either new and the last, or an old one
		mayBeFurther = held.Position >= namedAhead && held.Position+1 < held.Waiters
	}
	if l.done || !mayBeFurther {
		return held.Ahead, 0
	}
	s, began := a.x.s, time.Now()
	ctx, cancel := context.WithTimeout(a.x.r.Context(), waitline.WatchTimeout)
	defer cancel()
	var queue []driver.Place
	var err error
	for p, failed := range driver.Waiters(ctx, s.store, driver.Filter{Resource: a.q.Resource}) {
		if err = failed; err != nil {
			break
		}
		queue = append(queue, p)
		if own(p) {
			break
		}
	}
	s.storeCall(a.x.r.Context(), "waiters", began, err)
	if l.done = err == nil; !l.done {
		most = lookAgain
	}
	if n := len(queue); n > 0 && own(queue[n-1]) {
		return queue, most
	}
	return held.Ahead, most
}
