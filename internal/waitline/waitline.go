// Package waitline has lines of those who wait for a resource, in one process: first come,
// first served, in all modes. It decides when each asks the store again, and with which place
// in the store's queue. The waiters themselves ask, and tell what they heard. Of the store it
// calls nothing but Watch.
//
// While the store refuses, only the head of a line asks, at each signal of the store, so a
// thousand waiters cost the store as much as one. After the grant of a shared hold, the next
// ones that wait for the same kind of hold ask too: as many as were granted since the last
// refusal. A waiter without an answer asks again, head or not: its hold may be there and keep
// all others waiting.
//
// A waiter calls Turn, asks the store, and then one of Granted, Refused and Silent, again and
// again, and at last Leave or Away if it was not granted. It is used by one goroutine at a
// time. All methods of Lines may be called concurrently. None calls the store or the functions
// of Config under the mutex, but for Traits.
package waitline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// Why a Turn fails, but for the end of its ctx.
var (
	ErrClosed      = errors.New("the lines are closed")
	ErrReplaced    = errors.New("another waiter with the same key waits instead")
	ErrForgotten   = errors.New("its key was given up")
	ErrInterrupted = errors.New("interrupted")
)

// Config is what Lines need.
type Config struct {
	Scope  *storecall.Scope
	Traits func() driver.Traits
	// Watch is that of driver.Watcher. nil: there are no signals.
	Watch func(context.Context, string) (<-chan struct{}, error)
	// Watched, if any, is told of each subscription for a line.
	Watched func(resource string, began time.Time, err error)
	// Places is how many of a line may have places in the store's queue. If it is 1, the
	// place belongs to the line: the next head takes it over if it waits for the same kind of
	// hold, and otherwise Dropped is called. If it is more, each waiter has its own.
	Places  int
	Dropped func(Dropped)
	// Poll is the longest pause, on average, where the store sends no signal.
	Poll time.Duration
	// MostAway is how many waiters there may be for Away to keep one.
	MostAway int
}

// Dropped is a place that nobody asks for any more.
type Dropped struct {
	Resource, LockID string
	Place            driver.PlaceID
	Fair             bool
	Taken            bool // by a grant, which took it out of the store's queue
}

// Lines are the lines of all resources.
type Lines struct {
	Config
	life context.Context // ends with Close
	end  context.CancelFunc

	queue func() bool // whether the store has one: it is asked once

	used atomic.Int32 // len(lines): most releases find none

	mu       sync.Mutex
	lines    map[string]*line
	byKey    map[any]*Waiter
	free     []*line       // to be used again: an uncontended lock makes a line, too
	took     time.Duration // how long the last ask that was answered took
	hung     int           // calls of Watch that take longer than WatchTimeout
	returned chan struct{} // closed when there are none any more; nil: there are none
}

// Kind is what asks have in common that may be attempts of one acquire.
type Kind struct {
	Limit int
	Mode  driver.Mode
	Fair  bool
}

func (k Kind) placeTTL() time.Duration { return driver.AcquireRequest{Fair: k.Fair}.PlaceTTL() }

// Waiter is one that waits for a resource. Its exported fields are set before Join, if they do
// not say otherwise.
type Waiter struct {
	Resource, LockID string
	Kind             Kind
	// Key, if any, is what it is known by if it comes back, or another in its stead.
	Key any
	// Place is its place in the store. Zero: one is made when it is needed. Where a place
	// belongs to the line, it changes with the head.
	Place driver.PlaceID
	// Timeout is that of an attempt.
	Timeout time.Duration
	// Patience is how long the store may be silent before the wait is over. 0: for ever.
	// The time for which the process was stopped does not count.
	Patience time.Duration
	// Interrupt, if any, makes a Turn fail with ErrInterrupted. It may be set before
	// each Turn.
	Interrupt <-chan struct{}
	// Data is the user's.
	Data any
	// AtOnce: its first attempt does not wait for its turn. It may repeat one that was
	// granted, and then others wait for its own hold.
	AtOnce bool

	// Guarded by Lines.mu.
	present bool  // not away
	asking  bool  // it was told to ask, and has no answer yet
	invited bool  // to ask
	kept    bool  // the last answer confirmed the place
	tried   bool  // it has asked for a place, or was found to have one
	placed  bool  // and the last refusal gave it one
	carried bool  // its last ask had the place, and no other head has taken that over since
	last    bool  // it has made its last ask
	bySelf  bool  // a hold of its own lock ID was in its way when it was refused last
	aside   bool  // and it stands behind others: see stepAside
	waits   bool  // it was refused, or came after another
	silent  int32 // asks without an answer since the last one

	ls      *Lines
	wake    chan struct{} // it is invited, or the wait is over; made by Turn
	askedAt time.Duration // by the clock

	// Guarded by Lines.mu.
	line  *line         // nil: it is in none
	over  error         // why its wait is over
	askAt time.Duration // when it asks without an invitation
	since time.Duration // when it began to wait
	ranAt time.Duration // what line.ran was when it came
	away  *time.Timer
	pace  *pace // nil: it was not refused yet, and always answered
}

// Ask is one ask of the store.
type Ask struct {
	Place  driver.PlaceID // to ask with
	Within time.Duration  // the time-out
	At     time.Duration  // now, by the clock
}

// New returns lines without anybody.
func New(cfg Config) *Lines {
	ls := &Lines{Config: cfg, lines: make(map[string]*line), byKey: make(map[any]*Waiter)}
	ls.queue = sync.OnceValue(func() bool { return cfg.Traits().Queue })
	ls.life, ls.end = context.WithCancel(context.Background())
	return ls
}

// Join puts the waiter at the end of its line, or where one with the same key stands, whose
// wait is over then. If its Turn would not wait, Join returns what that would, and otherwise an
// Ask without a time-out: others come first.
func (ls *Lines) Join(w *Waiter) (ask Ask) {
	ls.mu.Lock()
	now := ls.Scope.Clock()
	w.ls, w.present, w.askAt = ls, true, never
	var old *Waiter
	if w.Key != nil {
		if old = ls.byKey[w.Key]; old != nil && old.Kind != w.Kind {
			ls.remove(old, now, ErrReplaced)
			old = nil
		}
		ls.byKey[w.Key] = w
	}
	l := ls.lineOf(w.Resource, now)
	l.pass(now)
	w.line, w.ranAt = l, l.ran
	at := 0
	if old != nil {
		at = l.replace(old, w)
	} else {
		at = l.insert(w)
	}
	var drop Dropped
	switch {
	case l.head != nil && l.head == old:
		l.head = w
	case l.head == nil || at < l.index(l.head):
		drop = l.lead(w, now)
	}
	if l.head != w {
		w.waitFrom(now)
	}
	if l.head == w || w.AtOnce {
		w.asking = true
		ask, _ = w.begin(now, nil)
	}
	l.invitePlaces(now)
	ls.mu.Unlock()
	ls.drop(drop)
	return ask
}

func (w *Waiter) waitFrom(now time.Duration) {
	if !w.waits {
		w.waits, w.since = true, now
	}
}

func (ls *Lines) drop(d Dropped) {
	if !d.Place.IsZero() && ls.Dropped != nil {
		ls.Dropped(d)
	}
}

// Turn waits until the waiter is to ask the store. It loses no invitation. If the store has
// been silent for the waiter's patience, the error is the last one of Silent. Called again
// without an answer, it returns at once.
func (w *Waiter) Turn(ctx context.Context) (Ask, error) {
	ls, fired := w.ls, false
	var timer <-chan time.Time
	var set time.Duration // what askAt was as the timer was set
	for {
		ls.mu.Lock()
		now := ls.Scope.Clock()
		over := w.over
		if over == nil && !w.asking {
			over = ctx.Err()
			if ls.life.Err() != nil {
				over = ErrClosed
			}
		}
		if over != nil || w.asking || w.invited || fired || now >= w.askAt {
			ask, err := w.begin(now, over)
			ls.mu.Unlock()
			return ask, err
		}
		if w.wake == nil {
			w.wake = make(chan struct{}, 1)
		}
		l := w.line
		if w.askAt != never && w.askAt != set {
			timer, set = time.After(w.askAt-now), w.askAt
		}
		var sub *subscription
		var signals <-chan struct{}
		if l.head == w && l.sub != nil {
			sub, signals = l.sub, l.sub.signals
		}
		ls.mu.Unlock()
		select {
		case <-w.wake:
		case _, open := <-signals:
			ls.signalled(l, sub, open)
		case <-timer:
			fired = true
		case <-w.Interrupt:
			return Ask{}, ErrInterrupted
		case <-ctx.Done():
			return Ask{}, ctx.Err()
		case <-ls.life.Done():
			return Ask{}, ErrClosed
		}
	}
}

// begin begins an ask. ls.mu is held.
func (w *Waiter) begin(now time.Duration, over error) (Ask, error) {
	if over != nil {
		return Ask{}, over
	}
	l := w.line
	l.pass(now)
	if w.Patience != 0 && l.silence(w) >= w.Patience {
		return Ask{}, l.heard
	}
	w.asking, w.invited, w.askAt, w.askedAt = true, false, never, now
	l.asking(w)
	ask := Ask{Within: w.Timeout, At: now}
	if l.mayPlace(l.index(w), w, now) {
		if w.Place.IsZero() {
			w.Place = driver.NewPlaceID()
		}
		w.tried = true
		ask.Place = w.Place
		// It must be asked for again before it ends: one request may get lost. A slow
		// store gets more time.
		lost := w.silent
		if w.kept {
			lost = max(lost-1, 0) // then there is time for a second one
		}
		ask.Within = min(ask.Within, max(w.Kind.placeTTL()/4<<min(lost, 4), 2*w.ls.took))
	}
	w.carried = !ask.Place.IsZero()
	return ask, nil
}

// answer notes that the ask is over. ls.mu is held.
func (w *Waiter) answer(err error, silent bool, now time.Duration) {
	l := w.line
	w.asking = false
	l.pass(now)
	if l.head == w {
		l.most = 2 * storecall.RetryLimit // it pauses
	}
	l.granted = 0
	if !l.silent {
		l.silentSince = l.ran
	}
	l.heard, l.silent = err, silent
	if !silent {
		w.ls.took, w.silent = now-w.askedAt, 0
	}
}

// Refused notes a refusal. ahead is who is served before the waiter as far as it is known,
// and then its own place, if that is known: at least e.Ahead. most, if it is not 0, is the
// longest pause before it asks again.
func (w *Waiter) Refused(e *driver.HeldError, ahead []driver.Place, most time.Duration) {
	ls := w.ls
	ls.mu.Lock()
	l := w.line
	if l == nil {
		ls.mu.Unlock()
		return
	}
	now := ls.Scope.Clock()
	w.answer(e, false, now)
	l.refusal = e
	w.waitFrom(now)
	hasPlace := w.carried && e.Position != driver.NoPlace
	w.kept, w.placed = hasPlace, hasPlace
	ls.watch(l)
	l.comeBack(e.Holders)
	var drop Dropped
	w.bySelf, w.aside = e.BySelf, e.BySelf
	if w.aside {
		drop = l.stepAside(w, now)
	}
	if ls.Places > 1 && ls.queue() {
		l.reorder(w, e, ahead, now)
	}
	l.invitePlaces(now)
	w.askAt = never
	pause := l.pause(w, e, now)
	if most != 0 {
		pause = min(pause, most)
	}
	if pause != never {
		w.askAt = now + pause
	}
	ls.mu.Unlock()
	ls.drop(drop)
}

// pause returns how long the waiter waits after a refusal. ls.mu is held.
func (l *line) pause(w *Waiter, e *driver.HeldError, now time.Duration) time.Duration {
	ls := l.ls
	switch {
	case w.tried && !w.carried:
		return 0 // it has a place, and has to ask with it
	case l.head != w && w.tried:
		return w.Kind.placeTTL() / 4 // it keeps its place
	case l.head != w:
		return never
	}
	l.others = max(e.Position-l.placesBefore(w), 0)
	p := w.paces()
	if l.sub != nil && l.sub.begins { // the head is invited when it has begun
		return hint(e)
	}
	pause, soonest, most := p.polls.Next(), min(pollFirst, ls.Poll), ls.Poll
	if l.sub != nil && l.sub.signals != nil {
		soonest, most = askFirst, askAtLeast
		// A hint of 0 is no hint, or a time too short for the store to return.
		if e.RetryAfter != 0 {
			pause = (now + p.lookouts.Next()).Truncate(wakeInterval) + wakeInterval - now
		}
	}
	pause = p.nextPause(w.Kind, w.carried, e, pause, soonest, most)
	return min(pause, hint(e), l.untilPlace(w, now))
}

func (w *Waiter) paces() *pace {
	if w.pace == nil {
		w.pace = &pace{polls: backoff.New(pollFirst, w.ls.Poll), lookouts: backoff.New(watchFirst, watchLimit)}
	}
	return w.pace
}

// Silent notes that the store has not answered: the waiter asks again after a pause. It
// returns err if the store has been silent for the waiter's patience.
func (w *Waiter) Silent(err error) error {
	ls := w.ls
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := w.line
	if l == nil {
		return nil
	}
	now := ls.Scope.Clock()
	w.answer(err, true, now)
	w.silent++
	if w.Patience != 0 && l.silence(w) >= w.Patience {
		return err
	}
	p := w.paces()
	if w.silent == 1 {
		p.retries = storecall.Retries()
	}
	w.askAt = now + p.retries.Next()
	return nil
}

// Granted notes a grant: the waiter has left, and whose turn it is now is invited. The error is
// ErrForgotten if the key was given up since the waiter asked.
func (w *Waiter) Granted() error {
	ls := w.ls
	ls.mu.Lock()
	l := w.line
	if l == nil {
		defer ls.mu.Unlock()
		return w.over
	}
	now := w.askedAt
	if len(l.waiters) > 1 {
		now = ls.Scope.Clock() // else nobody needs it
	}
	var drop Dropped
	if w.carried {
		drop = w.dropped(w.Place)
		drop.Taken = true
		w.tried = false
	}
	if other := ls.remove(w, now, nil); drop.Place.IsZero() {
		drop = other
	}
	if l.head != nil {
		if w.Kind.Mode == driver.Exclusive {
			l.comeBack(nil)
		}
		l.refusal = &driver.HeldError{Resource: w.Resource, RetryAfter: driver.Unknown}
		l.heard, l.silent = l.refusal, false
		l.inviteShared(w.Kind)
	}
	ls.mu.Unlock()
	ls.drop(drop)
	return nil
}

// Leave ends the wait for good, unless that is done.
func (w *Waiter) Leave() {
	ls := w.ls
	ls.mu.Lock()
	if w.line == nil {
		ls.mu.Unlock()
		return
	}
	drop := ls.remove(w, ls.Scope.Clock(), nil)
	ls.mu.Unlock()
	ls.drop(drop)
}

// KeepPlace reports whether one last ask is due before Away, which keeps the fair place in
// the store until the waiter comes back.
func (w *Waiter) KeepPlace() (Ask, bool) {
	ls := w.ls
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w.last || w.line == nil || !w.Kind.Fair || !w.tried {
		return Ask{}, false
	}
	w.last = true
	ask, err := w.begin(ls.Scope.Clock(), w.over)
	return ask, err == nil
}

// Away ends the wait and keeps its turn for that long: a waiter with the same key takes it.
// Until then it keeps nobody waiting but by its place in the store.
func (w *Waiter) Away(keep time.Duration) {
	ls := w.ls
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := w.line
	now := ls.Scope.Clock()
	switch {
	case l == nil:
	case ls.life.Err() != nil || len(ls.byKey) > ls.MostAway:
		ls.remove(w, now, nil)
	default:
		w.present, w.asking, w.waits = false, false, false
		w.away = time.AfterFunc(keep, w.Leave)
		if l.head == w {
			l.follow(now)
		}
		l.invitePlaces(now)
	}
}

// Heard returns how many are served before the waiter as far as it is known, or driver.NoPlace
// if it is in no line; a copy of the last refusal that anybody of the line heard, as if the
// waiter had been refused, but for BySelf; and what anybody heard last: a refusal, or the
// error of Silent, or nil.
func (w *Waiter) Heard() (position int, refusal *driver.HeldError, last error) {
	ls := w.ls
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := w.line
	if l == nil {
		return driver.NoPlace, nil, nil
	}
	if l.refusal != nil {
		refusal = w.told(l.refusal)
	}
	return l.others + l.index(w), refusal, l.heard
}

// told returns a copy of a refusal, as if the waiter had been refused, but for BySelf.
func (w *Waiter) told(e *driver.HeldError) *driver.HeldError {
	own, q := CopyOf(e), driver.AcquireRequest{Mode: w.Kind.Mode, Limit: w.Kind.Limit}
	own.LimitDiffers = slices.ContainsFunc(own.Holders, func(s driver.Status) bool { return q.LimitDiffers(s.Mode, s.Limit) })
	return own
}

// Wake invites the head of the line: the resource was released in this process, and need not
// wait for a signal of the store.
func (ls *Lines) Wake(resource string) {
	if ls.used.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.lines[resource]; l != nil && l.head != nil {
		l.head.invite()
	}
}

// Reject ends the waits of those with that lock ID: their Turn fails. Those that ask hear
// from the store.
func (ls *Lines) Reject(resource, lockID string, err error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[resource]
	if l == nil {
		return
	}
	for _, w := range l.waiters {
		if w.LockID == lockID && !w.asking && w.present {
			w.over = err
			w.signal()
		}
	}
}

// Forget ends the wait of the waiter with that key, which was given up.
func (ls *Lines) Forget(key any) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if w := ls.byKey[key]; w != nil {
		ls.remove(w, ls.Scope.Clock(), ErrForgotten)
	}
}

// Waiting is one that waits, and since when.
type Waiting struct {
	*Waiter
	Since time.Duration
}

// Waiting returns those that wait now.
func (ls *Lines) Waiting() (all []Waiting) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.lines {
		for _, w := range l.waiters {
			if w.waits {
				all = append(all, Waiting{w, w.since})
			}
		}
	}
	return all
}

// Close ends all waits: each Turn fails with ErrClosed.
func (ls *Lines) Close() { ls.end() }
