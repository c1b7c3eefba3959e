// Package waitline lets the callers of one process wait for locks: a line for each resource,
// served in the order of arrival, in all modes. It decides when a waiter asks the store
// again, and with which place in the store's queue. The waiters themselves call the store and
// report its answers. The package calls nothing of the store but Watch and Traits.
//
// While the store refuses, only the head of a line asks, at each signal of the store, so that
// a thousand waiters cost the store as much as one. After the grant of a shared hold the next
// waiters for the same kind of hold ask too: as many as were granted since the last refusal.
// A waiter without an answer asks again, head or not: its hold may exist and block all
// others.
//
// A waiter calls Turn, asks the store, and then calls Granted, Refused or Silent, again and
// again. If it was not granted, it finally calls Leave or Away. One goroutine at a time uses
// it. All methods of Lines may be called concurrently. They call neither the store, except
// for Traits, nor the functions of Config under the mutex.
package waitline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// The errors of Turn, besides the end of its ctx.
var (
	ErrClosed      = errors.New("the lines are closed")
	ErrReplaced    = errors.New("another waiter with the same key waits instead")
	ErrForgotten   = errors.New("its key was given up")
	ErrInterrupted = errors.New("interrupted")
)

// Config configures Lines.
type Config struct {
	Scope  *storecall.Scope
	Traits func() driver.Traits
	// Watch is the method of driver.Watcher. If it is nil, there are no signals.
	Watch func(context.Context, string) (<-chan struct{}, error)
	// Watched, if set, is called with the result of each subscription of a line.
	Watched func(resource string, began time.Time, err error)
	// Places is how many waiters of a line may have places in the store's queue. If it is 1,
	// the place belongs to the line: the next head takes it over if it waits for the same
	// kind of hold, and otherwise Dropped is called. If it is larger, each waiter has its own
	// place.
	Places  int
	Dropped func(Dropped)
	// Poll is the longest pause, on average, if the store sends no signals.
	Poll time.Duration
	// MostAway is the number of waiters beyond which Away keeps none.
	MostAway int
}

// Dropped is a place that no waiter uses any more.
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

	queue func() bool // whether the store has a queue; Traits is called once

	used atomic.Int32 // the number of lines with waiters: most releases find none

	mu       sync.Mutex
	lines    map[string]*line
	byKey    map[any]*Waiter
	free     []*line       // empty lines for reuse: an uncontended lock makes a line too
	took     time.Duration // how long the last answered attempt took
	hung     int           // calls of Watch that take longer than WatchTimeout
	returned chan struct{} // closed when there are none any more; nil if there are none
}

// Kind is what attempts of one acquire have in common.
type Kind struct {
	Limit int
	Mode  driver.Mode
	Fair  bool
}

func (k Kind) placeTTL() time.Duration { return driver.AcquireRequest{Fair: k.Fair}.PlaceTTL() }

// Waiter waits for a resource. Its exported fields are set before Join unless they say
// otherwise.
type Waiter struct {
	Resource, LockID string
	Kind             Kind
	// Key, if set, identifies a waiter that comes back, or its replacement.
	Key any
	// Place is its place in the store's queue. If it is zero, one is made when it is needed.
	// A place that belongs to the line changes with the head.
	Place driver.PlaceID
	// Timeout limits an attempt.
	Timeout time.Duration
	// Patience is how long the store may be silent before the wait ends; 0 means forever. The
	// time for which the process was stopped does not count.
	Patience time.Duration
	// Interrupt, if set, makes Turn fail with ErrInterrupted. It may be set before each Turn.
	Interrupt <-chan struct{}
	// Data is for the caller.
	Data any
	// AtOnce lets the first attempt not wait for its turn: it may repeat an attempt that was
	// granted, and then others wait for its hold.
	AtOnce bool

	// Guarded by Lines.mu.
	present bool  // not away
	asking  bool  // it was told to ask, and there is no answer yet
	invited bool  // to ask
	kept    bool  // the last answer confirmed the place
	tried   bool  // it has asked with a place, or was found to have one
	placed  bool  // the last refusal gave it a place
	carried bool  // its last attempt had the place, and no other head has taken the place over since
	last    bool  // it has made its last attempt
	bySelf  bool  // its last refusal was because of a hold of its own lock ID
	aside   bool  // it has stepped aside: see stepAside
	waits   bool  // it was refused, or came after another waiter
	silent  int32 // attempts without an answer since the last answer

	ls      *Lines
	wake    chan struct{} // signals an invitation or the end of the wait; made by Turn
	askedAt time.Duration // by the clock

	// Guarded by Lines.mu.
	line      *line         // nil if it is in no line
	forgotten *bool         // whether its key was given up, for all waiters with it; nil if it has none
	over      error         // why its wait has ended
	askAt     time.Duration // when it asks without an invitation
	since     time.Duration // when it began to wait
	ranAt     time.Duration // the line's ran when the waiter came
	away      *time.Timer
	pace      *pace // nil if it was always answered and never refused
}

// Ask is one attempt that a waiter is to make.
type Ask struct {
	Place  driver.PlaceID // the place to ask with
	Within time.Duration  // the timeout
	At     time.Duration  // the present time by the clock
}

// New returns Lines without waiters.
func New(cfg Config) *Lines {
	ls := &Lines{Config: cfg, lines: make(map[string]*line), byKey: make(map[any]*Waiter)}
	ls.queue = sync.OnceValue(func() bool { return cfg.Traits().Queue })
	ls.life, ls.end = context.WithCancel(context.Background())
	return ls
}

// Join adds the waiter at the end of its line, or in place of a waiter with the same key,
// whose wait ends. If Turn would return at once, Join returns its result, and otherwise an
// Ask without a timeout: other waiters come first.
func (ls *Lines) Join(w *Waiter) (ask Ask) {
	ls.mu.Lock()
	now := ls.Scope.Clock()
	w.ls, w.present, w.askAt = ls, true, never
	var old *Waiter
	if w.Key != nil {
		w.forgotten = new(bool)
		if old = ls.byKey[w.Key]; old != nil {
			w.forgotten = old.forgotten
		}
		if old != nil && old.Kind != w.Kind {
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
// been silent for the waiter's patience, the error is the last one that Silent got. If Turn
// is called again without an answer, it returns at once.
func (w *Waiter) Turn(ctx context.Context) (Ask, error) {
	ls, fired := w.ls, false
	var timer <-chan time.Time
	var set time.Duration // the askAt for which the timer was set
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

// begin begins an attempt. ls.mu is held.
func (w *Waiter) begin(now time.Duration, over error) (Ask, error) {
	if over != nil {
		return Ask{}, over
	}
	l := w.line
	l.pass(now)
	if l.tooSilent(w) {
		return Ask{}, l.heard
	}
	w.asking, w.invited, w.askAt, w.askedAt = true, false, never, now
	l.noteAsk(w)
	ask := Ask{Within: w.Timeout, At: now}
	if l.mayPlace(l.index(w), w, now) {
		if w.Place.IsZero() {
			w.Place = driver.NewPlaceID()
		}
		w.tried = true
		ask.Place = w.Place
		// The attempt must leave time to ask again before the place ends: one request may get
		// lost. A slow store gets more time.
		lost := w.silent
		if w.kept {
			lost = max(lost-1, 0) // there is time for a second attempt
		}
		ask.Within = min(ask.Within, max(w.Kind.placeTTL()/4<<min(lost, 4), 2*w.ls.took))
	}
	w.carried = !ask.Place.IsZero()
	return ask, nil
}

// answer notes the end of an attempt. ls.mu is held.
func (w *Waiter) answer(err error, silent bool, now time.Duration) {
	l := w.line
	w.asking = false
	l.pass(now)
	if l.head == w {
		l.most = 2 * storecall.RetryLimit // the pause of the head
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

// Refused notes a refusal. ahead has the waiters that are served first, as far as they are
// known, at least e.Ahead, followed by the waiter's own place if that is known. most, unless
// it is 0, is the longest pause before the next attempt.
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
	l.rejoin(e.Holders)
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

// Silent notes that the store has not answered: the waiter asks again after a pause. It
// returns err if the store has been silent for the waiter's patience. The waits of others
// whose patience is over end too.
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
	for _, other := range l.waiters {
		if other.over == nil && other.present && !other.asking && l.tooSilent(other) {
			other.over = err
			other.signal()
		}
	}
	if l.tooSilent(w) {
		return err
	}
	p := w.paces()
	if w.silent == 1 {
		p.retries = storecall.Retries()
	}
	w.askAt = now + p.retries.Next()
	return nil
}

// Granted notes a grant: the waiter leaves, and the next ones are invited. The error is
// ErrForgotten if the key was given up since the waiter asked, or ErrReplaced: then the
// waiter with the same key asks too, and may get the same grant.
func (w *Waiter) Granted() error {
	ls := w.ls
	ls.mu.Lock()
	l := w.line
	if l == nil {
		defer ls.mu.Unlock()
		switch next := ls.byKey[w.Key]; {
		case w.forgotten != nil && *w.forgotten:
			return ErrForgotten
		case next != nil:
			next.invite()
		}
		return w.over
	}
	now := w.askedAt
	if len(l.waiters) > 1 {
		now = ls.Scope.Clock() // nobody else needs it
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
			l.rejoin(nil)
		}
		l.refusal = &driver.HeldError{Resource: w.Resource, RetryAfter: driver.Unknown}
		l.heard, l.silent = l.refusal, false
		l.inviteShared(w.Kind)
	}
	ls.mu.Unlock()
	ls.drop(drop)
	return nil
}

// Leave ends the wait for good. It does nothing if the wait has ended.
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

// KeepPlace reports whether one last attempt is due before Away: it keeps the fair place in
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

// Away ends the wait but keeps its turn for the given time: a waiter with the same key takes
// it over. Until then only its place in the store delays other waiters.
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

// Heard returns how many waiters are served first, as far as it is known, or driver.NoPlace
// if the waiter is in no line; a copy of the line's last refusal, as if this waiter had been
// refused, except for BySelf; and the last result of any waiter of the line: a refusal, the
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

// told returns a copy of a refusal as if the waiter had been refused, except for BySelf.
func (w *Waiter) told(e *driver.HeldError) *driver.HeldError {
	own, q := CopyOf(e), driver.AcquireRequest{Mode: w.Kind.Mode, Limit: w.Kind.Limit}
	own.LimitDiffers = slices.ContainsFunc(own.Holders, func(s driver.Status) bool { return q.LimitDiffers(s.Mode, s.Limit) })
	return own
}

// Wake invites the head of the line, because the resource was released in this process. It
// need not wait for a signal of the store.
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

// Reject ends the waits with the given lock ID: their Turn fails. Waiters that are asking get
// the answer of the store.
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

// Forget ends the wait of the waiter with the given key, because the key was given up.
func (ls *Lines) Forget(key any) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w := ls.byKey[key]
	if w == nil {
		return
	}
	*w.forgotten = true
	ls.remove(w, ls.Scope.Clock(), ErrForgotten)
}

// Waiting is a waiter, and since when it has been waiting.
type Waiting struct {
	*Waiter
	Since time.Duration
}

// Waiting returns the present waiters.
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

// Uses reports whether a waiter for the resource uses the place.
func (ls *Lines) Uses(resource string, place driver.PlaceID) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[resource]
	return l != nil && slices.ContainsFunc(l.waiters, func(w *Waiter) bool { return w.Place == place })
}

// Close ends all waits: Turn fails with ErrClosed.
func (ls *Lines) Close() { ls.end() }
