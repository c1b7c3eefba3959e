package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// placesOfLine is how many of a line have places in the store's queue.
	placesOfLine = 16
	// placeAfter is how long the first of a line stands there before it takes a place that
	// is not fair: most locks are held for a shorter time.
	placeAfter = time.Second
	// keepAway is how long the line keeps the turn of a caller whose wait has
	// ended, for its next request with the same hold ID. The store keeps a fair place for
	// driver.FairPlaceTTL at most, and for three quarters of that at least, since it does not
	// note each request.
	keepAway = 7 * time.Second
)

// lines are the lines of a server, by resource.
type lines struct {
	s     *Server
	mu    sync.Mutex
	lines map[string]*line
	byID  map[waiterKey]*waiter
}

// waiterKey names an acquisition of one resource. Nobody gets at that of another, even if he
// knows its hold ID.
type waiterKey struct {
	caller, resource, lockID string
	id                       driver.HoldID
}

// waiterKeyOf returns the key of a hold of the caller.
func (x *exchange) waiterKeyOf(ref driver.HoldRef) waiterKey {
	return waiterKey{x.caller.Name(), ref.Resource, ref.LockID, ref.HoldID}
}

func (a *acquisition) waiterKey() waiterKey {
	return waiterKey{a.x.caller.Name(), a.q.Resource, a.q.LockID, a.q.HoldID}
}

// line are those who wait for one resource, first come, first served, in all modes. It is
// guarded by lines.mu, which is never held during a call of the store.
//
// The first who is present is the head. It asks at each signal of the store. After the
// grant of a shared hold, the next ones that ask for the same kind of hold ask too: as many
// as were granted since the last refusal. All others wait for their turn, and ask only to
// keep their places in the store.
type line struct {
	resource  string
	queue     bool      // they may have places in the store
	waiters   []*waiter // by seq
	places    map[driver.PlaceID]*waiter
	seq       uint64
	head      *waiter // nil: none is present
	headSince time.Time
	heard     *driver.HeldError // the last refusal
	others    int               // places of others in the store that are served before the head's
	granted   int               // shared holds since the last refusal
	fair      int               // waiters that are fair
	signals   <-chan struct{}   // of the store, for the head; nil: there are none
	watching  bool              // there will be, in a moment
	unwatch   context.CancelFunc
}

// waiter is an acquisition in a line. It stays for keepAway after its request has
// ended, and is away then: it keeps nobody waiting but by its place in the store.
type waiter struct {
	line    *line
	seq     uint64
	key     waiterKey
	place   driver.PlaceID // its ID in the store, if it has one
	kind    kind
	present bool
	asking  bool // an attempt is under way
	tried   bool // it has asked for a place, or was found to have one
	placed  bool // and the last refusal gave it one
	pacer   retryPacer
	turn    chan struct{} // an invitation to ask
	over    chan struct{} // closed when another request has taken its turn, or gave that up
	gone    bool          // it was released
	away    *time.Timer
}

// kind is what requests have in common that are attempts of one acquisition.
type kind struct {
	mode  driver.Mode
	limit int
	fair  bool
}

func kindOf(q *driver.AcquireRequest) kind { return kind{q.Mode, q.Limit, q.Fair} }

func invite(turn chan struct{}) {
	select {
	case turn <- struct{}{}:
	default: // there is an invitation
	}
}

func (ls *lines) init(s *Server) {
	ls.s, ls.lines, ls.byID = s, make(map[string]*line), make(map[waiterKey]*waiter)
}

// join puts the acquisition at the end of the line, or where an earlier request with the
// same hold ID stands. If that one still waits, it is told to go: both are attempts of one
// acquisition, and the caller reads the answer to the later one.
func (ls *lines) join(a *acquisition) *waiter {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	q, key := &a.q, a.waiterKey()
	old := ls.byID[key]
	if old != nil && old.kind != kindOf(q) {
		ls.remove(old)
		old = nil
	}
	l := ls.lines[q.Resource]
	if l == nil {
		l = &line{resource: q.Resource, queue: ls.s.store.Traits().Queue, places: make(map[driver.PlaceID]*waiter)}
		ls.lines[l.resource] = l
	}
	w := &waiter{
		line: l, key: key, place: a.ownPlace(), kind: kindOf(q), present: true, asking: true,
		turn: make(chan struct{}, 1), over: make(chan struct{}),
	}
	ls.byID[key], l.places[w.place] = w, w
	if old != nil {
		w.seq, w.tried, w.placed = old.seq, old.tried, old.placed
		a.placed = a.placed || old.tried
		l.waiters[l.index(old)] = w
		old.leave()
	} else {
		l.seq++
		w.seq = l.seq
		l.waiters = append(l.waiters, w)
		if w.kind.fair {
			l.fair++
		}
	}
	switch {
	case l.head != nil && l.head == old:
		l.head = w
	case l.head == nil || w.seq < l.head.seq:
		l.lead(w)
	}
	return w
}

// leave makes the waiter one that is in no line. lines.mu is held.
func (w *waiter) leave() {
	if w.away != nil {
		w.away.Stop()
	}
	if w.present {
		close(w.over)
	}
	w.present = false
}

func (l *line) index(w *waiter) int {
	i, _ := slices.BinarySearchFunc(l.waiters, w.seq, func(w *waiter, seq uint64) int { return cmp.Compare(w.seq, seq) })
	return i
}

// lead makes w the head. lines.mu is held.
func (l *line) lead(w *waiter) {
	l.head, l.headSince = w, time.Now()
}

// stays reports whether the waiter is in its line. lines.mu is held.
func (ls *lines) stays(w *waiter) bool { return ls.byID[w.key] == w }

// remove takes the waiter out of its line. lines.mu is held.
func (ls *lines) remove(w *waiter) {
	l := w.line
	delete(ls.byID, w.key)
	if l.places[w.place] == w {
		delete(l.places, w.place)
	}
	i := l.index(w)
	l.waiters = slices.Delete(l.waiters, i, i+1)
	if w.kind.fair {
		l.fair--
	}
	w.leave()
	if len(l.waiters) == 0 {
		delete(ls.lines, l.resource)
		if l.unwatch != nil {
			l.unwatch()
		}
		l.head = nil
		return
	}
	ls.follow(w, i)
}

// follow finds a new head if w was it: the first who is present from i on. lines.mu is held.
func (ls *lines) follow(w *waiter, i int) {
	l := w.line
	if l.head == w {
		for i < len(l.waiters) && !l.waiters[i].present {
			i++
		}
		if i == len(l.waiters) {
			l.head = nil
		} else {
			l.lead(l.waiters[i])
			invite(l.head.turn)
		}
	}
	l.place()
}

// ends are the ways to leave a line.
type end uint8

const (
	granted      end = iota // the grant took its place out of the store's queue
	abandoned               // it will not come back
	reconnecting            // its turn is kept
)

// leave ends the wait.
func (ls *lines) leave(w *waiter, how end) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !ls.stays(w) {
		return // another request has taken its turn
	}
	if how == reconnecting && ls.s.life.Err() == nil && len(ls.byID) <= 2*ls.s.opts.MaxWaits {
		w.present, w.asking = false, false
		w.away = time.AfterFunc(keepAway, func() { ls.expire(w) })
		ls.follow(w, w.line.index(w)+1)
		return
	}
	l := w.line
	ls.remove(w)
	if how == granted {
		l.inviteShared(w.kind)
	}
}

func (ls *lines) expire(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.stays(w) && !w.present {
		ls.remove(w)
	}
}

// giveUp gives up the turn of a hold ID that its caller releases.
func (ls *lines) giveUp(key waiterKey) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w := ls.byID[key]; w != nil {
		w.gone = w.present
		ls.remove(w)
	}
}

// inviteShared invites those at the head of the line that ask for a shared hold with the
// same limit as one that was granted. lines.mu is held.
func (l *line) inviteShared(k kind) {
	if k.mode != driver.Shared {
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
		case w.kind.mode != driver.Shared || w.kind.limit != k.limit:
			return
		}
		if !w.asking {
			w.asking = true
			invite(w.turn)
		}
		n--
	}
}

// place invites the next one that may take a place in the store, so that the store notes
// them in the order of the line. lines.mu is held.
func (l *line) place() {
	if !l.queue {
		return
	}
	for i, w := range l.waiters[:min(len(l.waiters), placesOfLine)] {
		switch {
		case !w.present || w.placed:
			continue
		case w.tried || w.asking: // it will ask again by itself
			return
		case l.mayPlace(i, w):
			invite(w.turn)
		}
		return
	}
}

// mayPlace reports whether the waiter, the i-th, may take a place. Fair ones take it at
// once, those before them too, and others once they have been the head for placeAfter. Each
// waits for all that are before it: the store would serve it before them. lines.mu is held.
func (l *line) mayPlace(i int, w *waiter) bool {
	if i >= placesOfLine || !l.queue {
		return false
	}
	if w.tried {
		return true
	}
	for _, before := range l.waiters[:i] {
		if before.present && !before.placed {
			return false
		}
	}
	return l.fair > 0 && l.fairFrom(i) || l.head == w && time.Since(l.headSince) >= placeAfter
}

func (l *line) fairFrom(i int) bool {
	return slices.ContainsFunc(l.waiters[i:min(len(l.waiters), placesOfLine)], func(w *waiter) bool { return w.kind.fair })
}
