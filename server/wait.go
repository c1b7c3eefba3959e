package server

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// overtime is how long after the end of a wait its last attempt may still be answered.
const overtime = 2 * time.Second

// wait acquires, and stands in line until it is granted, for as long as that.
//
// The first attempt is made at once, however long the line is: the request may repeat one
// that was granted, and then others wait for its own hold. It has a place in the store's
// queue if it is fair, and cannot pass those who have one.
func (a *acquisition) wait(limit time.Duration) {
	x, s := a.x, a.x.s
	if s.waits.Err() != nil {
		x.draining(wire.KindDraining)
		return
	}
	if !s.limits.take(&s.limits.waits, s.opts.MaxWaits) {
		x.busy("too many acquires wait at this server")
		return
	}
	defer s.limits.give(&s.limits.waits)
	s.opts.Observer.wait(1)
	defer s.opts.Observer.wait(-1)

	w := s.lines.join(a)
	st := waitSession{a: a, w: w, limit: limit, until: x.within(x.received.Add(limit)), by: x.deadline()}
	st.retries = backoff.New(retryFirst, retryLimit)
	st.polls = backoff.New(pollFirst, pollLimit)
	st.lookouts = backoff.New(watchFirst, watchLimit)
	st.timer = time.NewTimer(never)
	defer st.timer.Stop()
	st.run()
}

// waitSession is a wait that has begun.
type waitSession struct {
	a                        *acquisition
	w                        *waiter
	limit                    time.Duration
	until                    time.Time // the end of the wait
	by                       time.Time // the end of the next attempt
	last                     bool      // it is the last one
	looked                   bool      // for a place that it has already
	missed                   bool      // the last look for it had no answer
	signals                  <-chan struct{}
	retries, polls, lookouts backoff.Backoff
	timer                    *time.Timer
}

func (st *waitSession) run() {
	a, x := st.a, st.a.x
	for {
		// Before it looks: rights that change later close the channel.
		changed := x.caller.Changed()
		if st.denied() {
			return
		}
		st.beforeAttempt()
		g, err := a.once(st.by)
		if st.over(g, err) {
			return
		}
		pause := st.afterRefusal(err, st.ahead(err))
		if st.missed {
			pause = min(pause, lookAgain)
		}
		if !st.pause(pause, changed) {
			return
		}
		st.by = earliest(x.deadline(), st.until.Add(overtime))
	}
}

// denied reports whether the caller has lost its right, and if so, ends the wait.
func (st *waitSession) denied() bool {
	a := st.a
	err := a.allowed()
	if err == nil {
		return false
	}
	a.x.s.lines.leave(st.w, abandoned)
	a.withdraw(err)
	return true
}

// over reports whether the wait is over by that outcome of an attempt, and if so, answers.
func (st *waitSession) over(g decided, err error) bool {
	a, ls := st.a, &st.a.x.s.lines
	var held *driver.HeldError
	switch {
	case err == nil:
		ls.leave(st.w, granted)
		if ls.wasReleased(st.w) {
			// The caller has released the hold ID by another request.
			a.unknown = max(a.unknown, 1)
			a.cleanUp()
			a.x.refuse(wire.KindUnknown, "the hold was released by another request")
			return true
		}
		a.conclude(g, nil, st.limit)
	case a.x.r.Context().Err() != nil:
		st.hungUp()
	case errors.As(err, &held), !definite(err): // also by its own lock ID: who has that may be dead
		return false
	case errors.Is(err, errNotSent): // the budget is over
		ls.leave(st.w, st.later())
		a.conclude(g, err, st.limit)
	default:
		ls.leave(st.w, abandoned)
		a.conclude(g, err, st.limit)
	}
	return true
}

// later is how a wait is left whose caller may repeat its request: not if nobody knows the
// hold ID.
func (st *waitSession) later() end {
	if st.a.ours {
		return abandoned
	}
	return reconnecting
}

// hungUp ends the wait of a caller that is gone. If it made the hold ID, it may be on its
// way to another server, or back: nothing is released, neither hold nor place.
func (st *waitSession) hungUp() {
	st.a.x.s.lines.leave(st.w, st.later())
	if st.a.ours {
		st.a.cleanUp()
	}
	st.a.x.refuse(wire.KindUnknown, "the caller hung up")
}

// pause waits for the time to ask again, or answers: then it reports false.
func (st *waitSession) pause(d time.Duration, changed <-chan struct{}) bool {
	a, x, s := st.a, st.a.x, st.a.x.s
	st.timer.Reset(min(d, time.Until(st.until)))
	for {
		if !time.Now().Before(st.until) { // also if it was always its turn
			if st.keepsPlace() {
				return true
			}
			refusal := s.lines.refusal(st.w, &a.q)
			s.lines.leave(st.w, st.later())
			a.conclude(decided{}, refusal, st.limit)
			return false
		}
		select {
		case <-st.w.turn:
		case _, open := <-st.signals:
			if open {
				s.lines.signalled(st.w.line)
			} else { // the store says: poll from now on
				s.lines.watches(st.w.line, nil)
				st.signals = nil
			}
			continue
		case <-changed:
			// Most changes are of other rights: all waiters of a caller would ask at once.
			changed = x.caller.Changed()
			if st.denied() {
				return false
			}
			continue
		case <-st.timer.C:
			if !time.Now().Before(st.until) {
				continue
			}
		case <-x.r.Context().Done():
			st.hungUp()
			return false
		case <-st.w.over:
			if a.ours || s.lines.wasReleased(st.w) {
				a.cleanUp()
			}
			x.refuse(wire.KindUnknown, "another request with the same hold ID waits instead, or has released it")
			return false
		case <-s.waits.Done():
			s.lines.leave(st.w, abandoned)
			if a.ours {
				a.cleanUp()
			}
			if a.unknown > 0 && !a.ours {
				x.draining(wire.KindUnknown)
			} else {
				x.draining(wire.KindDraining)
			}
			return false
		}
		return true
	}
}

// keepsPlace reports whether a last attempt is due, which keeps the fair place in the store
// for the time until the caller comes back.
func (st *waitSession) keepsPlace() bool {
	a, ls := st.a, &st.a.x.s.lines
	if st.last || a.ours || !a.q.Fair || st.until.Equal(a.x.budget) {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	st.last = st.w.tried && ls.stays(st.w)
	return st.last
}

// beforeAttempt gives the next attempt the place that the waiter has or may take.
func (st *waitSession) beforeAttempt() {
	a, w, ls := st.a, st.w, &st.a.x.s.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	a.q.Place, w.asking = driver.PlaceID{}, true
	if l := w.line; ls.stays(w) && (w.tried || l.mayPlace(l.index(w), w)) {
		a.q.Place = w.place
		w.tried, a.placed = true, true
		// It has to be asked for again before it ends: one request may get lost.
		st.by = earliest(st.by, time.Now().Add(a.q.PlaceTTL()/4<<min(a.unknown, 4)))
	}
}

// afterRefusal notes what the store answered, or that it did not, and who is ahead. It
// returns the pause.
func (st *waitSession) afterRefusal(err error, ahead []driver.Place) time.Duration {
	a, w, ls := st.a, st.w, &st.a.x.s.lines
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := w.line
	w.asking, st.signals = false, nil
	var held *driver.HeldError
	if !errors.As(err, &held) {
		// Its hold may be there and keep all others waiting: so it asks, head or not.
		return st.retries.Next()
	}
	st.retries = backoff.New(retryFirst, retryLimit)
	l.heard, l.granted = held, 0
	w.placed = !a.q.Place.IsZero() && held.Position != driver.NoPlace
	if !ls.stays(w) {
		return never
	}
	ls.watchOnce(l)
	l.reorder(w, held, ahead)
	l.place()
	if w.tried && a.q.Place.IsZero() {
		return 0 // it has a place, and has to ask with it
	}
	if l.head != w {
		if w.tried { // it keeps its place
			return a.q.PlaceTTL() / 4
		}
		return never
	}
	st.signals = l.signals
	l.others = max(held.Position-l.placesBefore(w), 0)
	pause := st.polls.Next()
	// 0 is no hint, or a time too short for the store to return.
	switch {
	case l.watching:
		pause = watchTimeout
	case l.signals != nil && held.RetryAfter != 0:
		pause = st.lookouts.Next()
	}
	return min(w.pacer.nextPause(&a.q, held, pause), hint(held), l.untilPlace(w))
}

// placesBefore returns how many of the line have fair places before w. lines.mu is held.
func (l *line) placesBefore(w *waiter) (n int) {
	for _, before := range l.waiters[:l.index(w)] {
		if before.placed && before.kind.fair {
			n++
		}
	}
	return n
}

// untilPlace returns how long until the head takes a place, never if it takes none.
// lines.mu is held.
func (l *line) untilPlace(w *waiter) time.Duration {
	if w.tried || !l.queue || l.index(w) >= placesOfLine {
		return never
	}
	return max(placeAfter-time.Since(l.headSince), time.Millisecond)
}

// refusal is what a waiter is told at the end: the last refusal that anybody of the line
// heard, and where it stands itself.
func (ls *lines) refusal(w *waiter, q *driver.AcquireRequest) *driver.HeldError {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := w.line
	e := driver.HeldError{Resource: q.Resource, RetryAfter: driver.Unknown, Position: driver.NoPlace}
	if l.heard != nil {
		e = *l.heard
	}
	// It may be the answer to another one's request.
	e.BySelf = slices.ContainsFunc(e.Holders, func(s driver.Status) bool { return s.LockID == q.LockID && s.Left != 0 })
	e.LimitDiffers = slices.ContainsFunc(e.Holders, func(s driver.Status) bool { return q.LimitDiffers(s.Mode, s.Limit) })
	e.Ahead = slices.DeleteFunc(slices.Clone(e.Ahead), func(p driver.Place) bool { return p.ID == w.place })
	e.Position = driver.NoPlace
	if ls.stays(w) {
		e.Position = l.others + l.index(w)
		e.Waiters = max(e.Waiters, e.Position+1)
	}
	return &e
}

// wasReleased reports whether the caller has released the hold ID by another request.
func (ls *lines) wasReleased(w *waiter) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return w.gone
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
