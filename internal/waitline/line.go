package waitline

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// placeAfter is how long the head of a line waits before it takes a place that is not fair.
// Most locks are held for a shorter time, and nobody needs to see who waits for them.
const placeAfter = time.Second

// mostFree bounds how many empty lines are kept to be used again, of other resources, too.
const mostFree = 8

// line are those who wait for one resource. The first who is present is the head. It is
// guarded by Lines.mu.
type line struct {
	ls       *Lines
	resource string
	waiters  []*Waiter
	head     *Waiter // nil: none is present

	headSince   time.Duration
	ran         time.Duration     // how long it has asked or waited; it may stop with the process, see pass
	passed      time.Duration     // when that was noted last
	most        time.Duration     // how much longer the asks or the pause of the head may take
	heard       error             // the last answer: a *driver.HeldError, or the error of Silent; nil: none yet
	refusal     *driver.HeldError // the last one, also if something else was heard since
	silent      bool              // it is that of Silent
	silentSince time.Duration     // what ran was when it became silent
	others      int               // places of others in the store that are served before the head's
	granted     int               // shared holds since the last refusal
	sub         *subscription     // nil: none
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

// index returns how many stand before the waiter. Most that leave are near the head.
func (l *line) index(w *Waiter) int { return slices.Index(l.waiters, w) }

// invite lets the waiter ask as soon as it waits.
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

// insert puts the waiter behind all others but those that have stepped aside, unless it
// has done that, too, or the same hold stops it.
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

// replace puts w where old stands, whose wait is over.
func (l *line) replace(old, w *Waiter) (at int) {
	at = l.index(old)
	l.waiters[at] = w
	w.Place, w.tried, w.placed, w.aside = old.Place, old.tried, old.placed, old.aside
	old.end(ErrReplaced)
	return at
}

// end makes the waiter one that is in no line.
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

// remove takes the waiter out of its line, and invites whose turn it is.
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

// retire makes the line one that nobody is in. It is kept if few are: the next waiter often
// comes to the same resource.
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

// follow makes the first who is present the head, and invites it. Those that are stopped by
// holds of their own lock IDs ask in turn, but not without a pause.
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

// lead makes w the head; nil: there is none. If the place belongs to the line, w takes it
// over, or it is dropped.
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

// stepAside puts a waiter behind those that may have other holds in their way, because a
// hold of its own lock ID stops it alone: others may share the resource meanwhile, and get a
// place in the store's queue.
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

// comeBack ends the standing aside of those whose lock ID has none of the holds any more: who
// comes later is behind them again.
func (l *line) comeBack(holders []driver.Status) {
	for i := len(l.waiters) - 1; i >= 0 && l.waiters[i].aside; i-- {
		w := l.waiters[i]
		w.aside = slices.ContainsFunc(holders, func(s driver.Status) bool { return s.LockID == w.LockID && s.Left != 0 })
	}
}

// pass notes the time since it was called last. That is at most what the asks and the
// pause under way may take: for the rest the process was stopped, or its machine was
// suspended, and nothing could be heard.
func (l *line) pass(now time.Duration) {
	passed := min(max(now-l.passed, 0), l.most)
	l.ran, l.most = l.ran+passed, l.most-passed
	l.passed = max(l.passed, now)
}

// asking notes that the waiter asks.
func (l *line) asking(w *Waiter) {
	most := w.Timeout
	if l.head != w {
		most = max(most, l.most) // the head asks or pauses, too
	}
	l.most = most
}

// silence returns how long the waiter has known the store to be silent.
func (l *line) silence(w *Waiter) time.Duration {
	if !l.silent {
		return 0
	}
	return l.ran - max(l.silentSince, w.ranAt)
}

// inviteShared invites those at the head of the line that wait for a shared hold with the
// same limit as one that was granted.
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

// invitePlaces invites the next one that may take a place in the store, so that the store
// notes them in the order of the line.
func (l *line) invitePlaces(now time.Duration) {
	if !l.ls.queue() {
		return
	}
	for i, w := range l.waiters[:min(len(l.waiters), l.ls.Places)] {
		switch {
		case !w.present || w.placed:
			continue
		case w.tried || w.asking: // it will ask again by itself
			return
		case l.head == w && l.sub != nil && l.sub.begins: // it is invited when that has begun
			return
		case l.mayPlace(i, w, now):
			w.invite()
		}
		return
	}
}

// mayPlace reports whether the waiter, the i-th, may ask with a place. Fair ones take it at
// once, those before them too, and others once they have been the head for placeAfter. Each
// waits for all that are before it: the store would serve it before them.
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

// untilPlace returns how long until the head takes a place, never if it takes none.
func (l *line) untilPlace(w *Waiter, now time.Duration) time.Duration {
	if w.tried || !l.ls.queue() || l.index(w) >= l.ls.Places {
		return never
	}
	return max(l.headSince+placeAfter-now, time.Millisecond)
}

// placesBefore returns how many of the line have fair places before w.
func (l *line) placesBefore(w *Waiter) (n int) {
	for _, before := range l.waiters[:l.index(w)] {
		if before.placed && before.Kind.Fair {
			n++
		}
	}
	return n
}

// reorder puts those of the line before w that the store serves before it, and w before
// those that it serves later.
//
// A line and the store's queue have the same order, but for two: who comes from another
// process has a place there already, and a place may be lost, as after an outage. The store
// decides whom it serves first, and that one must be the head of its line: only heads ask
// at each signal, and until it asks, its place keeps all others waiting.
func (l *line) reorder(w *Waiter, e *driver.HeldError, ahead []driver.Place, now time.Duration) {
	allKnown := w.placed && w.Kind.Fair && e.Position == len(ahead)
	if i := slices.IndexFunc(ahead, func(p driver.Place) bool { return p.ID == w.Place }); i >= 0 {
		ahead, allKnown = ahead[:i], true
		w.tried, w.placed = true, true
	}
	for _, p := range ahead {
		i := slices.IndexFunc(l.waiters, func(v *Waiter) bool { return v.Place == p.ID })
		if i < 0 || l.waiters[i].aside {
			continue // nobody, or it would be refused
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

// moveTo makes w, which is further back, the i-th of the line.
func (l *line) moveTo(w *Waiter, i int) {
	at := l.index(w)
	copy(l.waiters[i+1:at+1], l.waiters[i:at])
	l.waiters[i] = w
}

// CopyOf returns a copy of a refusal that several are told: each may change what it gets.
func CopyOf(e *driver.HeldError) *driver.HeldError {
	own := *e
	own.Holders, own.Ahead = slices.Clone(e.Holders), slices.Clone(e.Ahead)
	return &own
}
