package waitline

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// placeAfter is how long the head of a line waits before it takes an unfair place. Most locks
// are held for a shorter time, and nobody needs to see their waiters.
const placeAfter = time.Second

// mostFree limits the number of empty lines that are kept for reuse.
const mostFree = 8

// line has the waiters for one resource. The first present waiter is the head. It is guarded
// by Lines.mu.
type line struct {
	ls       *Lines
	resource string
	waiters  []*Waiter
	head     *Waiter // nil if no waiter is present

	headSince   time.Duration
	ran         time.Duration     // how long it has asked or waited, without the time for which the process was stopped: see pass
	passed      time.Duration     // when ran was last updated
	most        time.Duration     // how much longer the present attempts, or the pause of the head, may take
	heard       error             // the last result: a *driver.HeldError, or the error of Silent; nil if there is none yet
	refusal     *driver.HeldError // the last refusal, even if another result came since
	silent      bool              // heard is the error of Silent
	silentSince time.Duration     // the value of ran when the store became silent
	others      int               // places of other processes that are served before the head's
	granted     int               // shared holds since the last refusal
	sub         *subscription     // nil if there is none
}

// lineOf returns the line of the resource.
func (ls *Lines) lineOf(resource string, now time.Duration) *line {
	l := ls.lines[resource]
	switch {
	case l != nil && len(l.waiters) > 0:
		return l
	case l != nil:
		i := slices.Index(ls.free, l)
		ls.free = slices.Delete(ls.free, i, i+1)
	case len(ls.free) == mostFree:
		l = ls.free[0]
		ls.free = slices.Delete(ls.free, 0, 1)
		delete(ls.lines, l.resource)
		l.resource, ls.lines[resource] = resource, l
	default:
		l = &line{ls: ls, resource: resource}
		ls.lines[resource] = l
	}
	l.passed = now
	ls.used.Add(1)
	return l
}

// index returns how many waiters are before w. Most waiters that leave are near the head.
func (l *line) index(w *Waiter) int { return slices.Index(l.waiters, w) }

// invite makes the waiter's Turn return, now or when it is called.
func (w *Waiter) invite() {
	w.invited = true
	w.signal()
}

func (w *Waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// insert adds the waiter at the end, but before waiters that have stepped aside, unless the
// waiter has stepped aside too or would be stopped by the same hold.
func (l *line) insert(w *Waiter) (at int) {
	at = len(l.waiters)
	for ; at > 0 && l.waiters[at-1].aside && !w.aside; at-- {
		w.aside = l.waiters[at-1].LockID == w.LockID
	}
	if w.aside {
		at = len(l.waiters)
	}
	l.waiters = slices.Insert(l.waiters, at, w)
	return at
}

// replace puts w in the position of old, whose wait ends.
func (l *line) replace(old, w *Waiter) (at int) {
	at = l.index(old)
	l.waiters[at] = w
	w.Place, w.tried, w.placed, w.aside = old.Place, old.tried, old.placed, old.aside
	old.end(ErrReplaced)
	return at
}

// end marks the waiter as being in no line.
func (w *Waiter) end(why error) {
	w.line, w.waits = nil, false
	if w.over == nil {
		w.over = why
	}
	if w.away != nil {
		w.away.Stop()
	}
	if w.present && why != nil {
		w.signal()
	}
	w.present = false
}

// remove takes the waiter out of its line and invites the next ones.
func (ls *Lines) remove(w *Waiter, now time.Duration, why error) (drop Dropped) {
	l := w.line
	if w.Key != nil && ls.byKey[w.Key] == w {
		delete(ls.byKey, w.Key)
	}
	i := l.index(w)
	l.waiters = slices.Delete(l.waiters, i, i+1)
	if l.head == w {
		drop = l.follow(now)
	}
	w.end(why)
	if len(l.waiters) == 0 {
		ls.retire(l)
		return drop
	}
	l.invitePlaces(now)
	return drop
}

// retire handles a line without waiters. A few such lines are kept, because the next waiter
// often waits for the same resource.
func (ls *Lines) retire(l *line) {
	ls.used.Add(-1)
	if l.sub != nil {
		l.sub.cancel()
	}
	if len(ls.free) == mostFree || cap(l.waiters) > mostFree {
		delete(ls.lines, l.resource)
		return
	}
	*l = line{ls: ls, resource: l.resource, waiters: l.waiters}
	ls.free = append(ls.free, l)
}

// follow makes the first present waiter the head and invites it. Waiters that are stopped by
// holds of their own lock IDs ask in turn too, but not without a pause.
func (l *line) follow(now time.Duration) (drop Dropped) {
	var next *Waiter
	if i := slices.IndexFunc(l.waiters, func(w *Waiter) bool { return w.present }); i >= 0 {
		next = l.waiters[i]
	}
	drop = l.lead(next, now)
	switch {
	case next == nil:
	case next.bySelf && !next.invited:
		next.askAt = min(next.askAt, now+next.paces().polls.Next())
		next.signal()
	default:
		next.invite()
	}
	return drop
}

// lead makes w the head; nil means none. If the place belongs to the line, w takes it over,
// or it is dropped.
func (l *line) lead(w *Waiter, now time.Duration) (drop Dropped) {
	was := l.head
	l.head, l.headSince = w, now
	if l.sub != nil && l.sub.cut {
		l.sub.cancel()
		l.sub = nil
	}
	if l.ls.Places > 1 || was == nil || was == w || !was.tried {
		return Dropped{}
	}
	id := was.Place
	if w != nil && w.Kind == was.Kind {
		w.Place, w.tried, w.placed, w.kept = id, true, was.placed, was.kept
	} else {
		drop = was.dropped(id)
	}
	was.Place, was.tried, was.placed, was.kept, was.carried = driver.PlaceID{}, false, false, false, false
	return drop
}

func (w *Waiter) dropped(id driver.PlaceID) Dropped {
	return Dropped{Resource: w.Resource, LockID: w.LockID, Place: id, Fair: w.Kind.Fair}
}

// stepAside moves a waiter behind the others, because a hold of its own lock ID stops it
// alone. Others may share the resource until then, and get a place in the store's queue.
func (l *line) stepAside(w *Waiter, now time.Duration) (drop Dropped) {
	if !slices.ContainsFunc(l.waiters, func(v *Waiter) bool { return !v.aside && v.present }) {
		return Dropped{}
	}
	i := l.index(w)
	l.waiters = append(slices.Delete(l.waiters, i, i+1), w)
	if l.head == w {
		drop = l.follow(now)
	}
	return drop
}

// rejoin lets waiters that have stepped aside stand in line again if their lock ID has none
// of the holds any more: later waiters then come behind them.
func (l *line) rejoin(holders []driver.Status) {
	for i := len(l.waiters) - 1; i >= 0 && l.waiters[i].aside; i-- {
		w := l.waiters[i]
		w.aside = slices.ContainsFunc(holders, func(s driver.Status) bool { return s.LockID == w.LockID && s.Left != 0 })
	}
}

// pass adds the time since its last call to ran, but at most the time that the present
// attempts and pause may take. During any further time the process was stopped or its machine
// suspended, and no answer could arrive.
func (l *line) pass(now time.Duration) {
	passed := min(max(now-l.passed, 0), l.most)
	l.ran, l.most = l.ran+passed, l.most-passed
	l.passed = max(l.passed, now)
}

// noteAsk notes that the waiter asks.
func (l *line) noteAsk(w *Waiter) {
	most := w.Timeout
	if l.head != w {
		most = max(most, l.most) // the head asks or pauses too
	}
	l.most = most
}

// tooSilent reports whether the store has been silent for the waiter's patience, as far as the
// waiter was there.
func (l *line) tooSilent(w *Waiter) bool {
	return w.Patience != 0 && l.silent && l.ran-max(l.silentSince, w.ranAt) >= w.Patience
}

// inviteShared invites the first waiters of the line if they wait for a shared hold with the
// same limit as a granted one.
func (l *line) inviteShared(k Kind) {
	if k.Mode != driver.Shared {
		l.granted = 0
		return
	}
	l.granted++
	n := l.granted
	for _, w := range l.waiters {
		switch {
		case n == 0:
			return
		case !w.present:
			continue
		case w.Kind.Mode != driver.Shared || w.Kind.Limit != k.Limit:
			return
		}
		if !w.asking {
			w.invite()
		}
		n--
	}
}

// invitePlaces invites the next waiter that may take a place in the store, so that the places
// have the order of the line.
func (l *line) invitePlaces(now time.Duration) {
	if !l.ls.queue() {
		return
	}
	for i, w := range l.waiters[:min(len(l.waiters), l.ls.Places)] {
		switch {
		case !w.present || w.placed:
			continue
		case w.tried || w.asking: // it asks again by itself
			return
		case l.head == w && l.sub != nil && l.sub.begins: // it is invited when the subscription has begun
			return
		case l.mayPlace(i, w, now):
			w.invite()
		}
		return
	}
}

// mayPlace reports whether w, the i-th waiter, may ask with a place: fair waiters and the
// waiters before them at once, and others after they have been the head for placeAfter. A
// waiter first waits until all waiters before it have places: otherwise the store would serve
// it before them.
func (l *line) mayPlace(i int, w *Waiter, now time.Duration) bool {
	if w.tried {
		return true
	}
	if i >= l.ls.Places || !l.ls.queue() {
		return false
	}
	for _, before := range l.waiters[:i] {
		if before.present && !before.placed {
			return false
		}
	}
	return l.head == w && now-l.headSince >= placeAfter ||
		slices.ContainsFunc(l.waiters[i:min(len(l.waiters), l.ls.Places)], func(w *Waiter) bool { return w.Kind.Fair })
}

// untilPlace returns the time until the head takes a place, or never if it takes none.
func (l *line) untilPlace(w *Waiter, now time.Duration) time.Duration {
	if w.tried || !l.ls.queue() || l.index(w) >= l.ls.Places {
		return never
	}
	return max(l.headSince+placeAfter-now, time.Millisecond)
}

// placesBefore returns how many waiters of the line before w have fair places.
func (l *line) placesBefore(w *Waiter) (n int) {
	for _, before := range l.waiters[:l.index(w)] {
		if before.placed && before.Kind.Fair {
			n++
		}
	}
	return n
}

// reorder moves waiters that the store serves before w to before it, and w to before waiters
// that the store serves later.
//
// A line and the store's queue have the same order with two exceptions: a waiter that comes
// from another process already has a place, and a place may be lost, as after an outage. The
// store decides which waiter it serves first, and that waiter must be the head of its line:
// only heads ask at each signal, and until it asks, its place blocks all others.
func (l *line) reorder(w *Waiter, e *driver.HeldError, ahead []driver.Place, now time.Duration) {
	allKnown := w.placed && w.Kind.Fair && e.Position == len(ahead)
	if i := slices.IndexFunc(ahead, func(p driver.Place) bool { return p.ID == w.Place }); i >= 0 {
		ahead, allKnown = ahead[:i], true
		w.tried, w.placed = true, true
	}
	for _, p := range ahead {
		i := slices.IndexFunc(l.waiters, func(v *Waiter) bool { return v.Place == p.ID })
		if i < 0 || l.waiters[i].aside {
			continue // there is none, or it would be refused
		}
		v := l.waiters[i]
		if !v.tried {
			v.tried, v.placed = true, true
			if v.present && !v.asking {
				v.invite() // to keep its place
			}
		}
		if at := l.index(w); i > at {
			l.moveTo(v, at)
		}
	}
	if allKnown {
		before := l.waiters[:l.index(w)]
		i := slices.IndexFunc(before, func(v *Waiter) bool {
			named := slices.ContainsFunc(ahead, func(p driver.Place) bool { return p.ID == v.Place })
			return !named && (v.Kind.Fair || !v.placed)
		})
		if i >= 0 {
			l.moveTo(w, i)
		}
	}
	i := slices.IndexFunc(l.waiters, func(w *Waiter) bool { return w.present })
	if first := l.waiters[i]; first != l.head {
		l.lead(first, now)
		if first != w {
			first.invite()
		}
	}
}

// moveTo moves w forward to be the i-th waiter of the line.
func (l *line) moveTo(w *Waiter, i int) {
	at := l.index(w)
	copy(l.waiters[i+1:at+1], l.waiters[i:at])
	l.waiters[i] = w
}

// CopyOf returns a copy of a refusal for one of several callers: each may change its own.
func CopyOf(e *driver.HeldError) *driver.HeldError {
	own := *e
	own.Holders, own.Ahead = slices.Clone(e.Holders), slices.Clone(e.Ahead)
	return &own
}
