// Package health keeps what is known of a store now: the calls that it answered lately and
// those that it did not, and whether it is still the same store.
package health

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// Window is the time of which a State counts calls.
	Window   = time.Minute
	slots    = 12
	slotTime = Window / slots
	// again is how many calls in a row that fail are no accident.
	again = 2
	// unusable is for how long an operation counts as refused that nobody tries again.
	unusable = time.Hour
)

// Patience is what a call must be given before its silence says something of the store: a caller
// may have less time, or send its request late. It is also how long the server waits for the
// answer of the calls by which it watches the store.
const Patience = 5 * time.Second

// Log keeps what is known. All methods may be called concurrently.
type Log struct {
	mu       sync.Mutex
	began    time.Time
	slots    [slots]slot
	ops      map[string]*op
	answered time.Time
	// silent are the calls that failed since one was answered.
	silent op
	last   op // the last call that failed

	// What the server says of the store, if there is one.
	served            bool
	prepared          bool
	unprepared        Failure
	replaced          time.Time
	wait              time.Duration
	endless, isEnding bool
}

// slot are the calls that ended in one part of the time.
type slot struct {
	number        int64 // since the Log began
	calls, failed int
}

// op are calls that have failed since one was answered.
type op struct {
	since, last time.Time
	failures    int
	why         Failure       // of the last one
	given       time.Duration // to the last one
}

func (o *op) fail(now time.Time, took time.Duration, why Failure) {
	if o.failures++; o.failures == 1 {
		o.since = now.Add(-took)
	}
	o.last, o.why, o.given = now, why, took
}

// sure reports whether that was no accident.
func (o *op) sure() bool { return o.failures >= again || o.failures > 0 && o.why == Unusable }

// New returns a Log that knows nothing.
func New() *Log { return &Log{began: time.Now(), ops: map[string]*op{}} }

// StoreCall notes a call that has returned, as server.Observer is told of it. Calls whose caller
// hung up, or had too little time, are left out: they say nothing of the store.
func (l *Log) StoreCall(ctx context.Context, name string, took time.Duration, err error) {
	why := FailureOf(err)
	if errors.Is(ctx.Err(), context.Canceled) && why != None || errors.Is(err, context.Canceled) || why == Silent && took < Patience-slack {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	number := int64(now.Sub(l.began) / slotTime)
	at := &l.slots[number%slots]
	if at.number != number {
		*at = slot{number: number}
	}
	at.calls++
	if why == None {
		l.answered, l.silent = now, op{}
		delete(l.ops, name)
		return
	}
	at.failed++
	l.last = op{why: why, given: took}
	if !l.answered.After(now.Add(-took)) { // others were not answered meanwhile
		l.silent.fail(now, took, why)
	}
	if looks(name) {
		return // they ask for much, and may be slow
	}
	if l.ops[name] == nil {
		l.ops[name] = new(op)
	}
	l.ops[name].fail(now, took, why)
}

// slack is for timers that fire early.
const slack = 500 * time.Millisecond

// looks reports whether an operation is none that locks need.
func looks(op string) bool {
	return op == "list" || op == "waiters" || op == "sweep" || op == "watch"
}

// Failure is why a call was not answered.
type Failure int

// The failures.
const (
	None     Failure = iota
	Silent           // it ran into its time limit
	Broken           // there is no connection, or no answer that can be understood
	Unusable         // driver.ErrUnusable
)

// FailureOf returns why a call with that error was not answered: None if the store said
// something of what it was asked, be it a refusal.
func FailureOf(err error) Failure {
	var timeout net.Error
	switch {
	case errors.Is(err, driver.ErrUnusable):
		return Unusable
	case err == nil, driver.Definite(err):
		return None
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Silent
	}
	return Broken
}

// Answered returns when a call was answered last. It is zero if none was.
func (l *Log) Answered() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// Preparing notes that the store is not prepared yet, and why. No lock is granted.
func (l *Log) Preparing(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served, l.prepared, l.unprepared = true, false, FailureOf(why)
}

// Prepared notes that the store is prepared, and the one that it was.
func (l *Log) Prepared() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.served, l.prepared, l.replaced = true, true, time.Time{}
}

// Replaced notes that the store is another one, or has lost its data. No lock is granted.
// Holders of the old one may go on for wait, or for ever if endless: see State.
func (l *Log) Replaced(wait time.Duration, endless bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.replaced.IsZero() {
		l.replaced, l.wait, l.endless = time.Now(), wait, endless
	}
}

// Ending notes that the server ends.
func (l *Log) Ending() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isEnding = true
}

// Now returns what is known now.
func (l *Log) Now() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	s := State{At: now, Answered: l.answered, Failure: l.last.why, Given: l.last.given}
	newest := int64(now.Sub(l.began) / slotTime)
	for _, at := range l.slots {
		if at.calls > 0 && newest-at.number < slots {
			s.Calls, s.Failed = s.Calls+at.calls, s.Failed+at.failed
		}
	}
	switch {
	case !l.replaced.IsZero():
		s.Level, s.Since, s.Wait, s.Endless = Replaced, l.replaced, l.wait, l.endless
	case l.served && !l.prepared:
		s.Level, s.Since, s.Failure = Starting, l.began, l.unprepared
	case l.silent.sure(), l.silent.failures > 0 && l.silent.why == Silent:
		s.Level, s.Since = Failing, l.silent.since
	case l.failing(&s):
	case l.isEnding:
		s.Level = Ending
	case l.answered.IsZero():
		s.Level, s.Since = Starting, l.began
	case s.Failed > 0:
		s.Level = Degraded
	}
	return s
}

// failing looks for the operation whose calls have not been answered for the longest time,
// although others are. One that nobody has asked for lately is not known to fail still.
func (l *Log) failing(s *State) bool {
	for name, o := range l.ops {
		told := Window
		if o.why == Unusable {
			told = unusable
		}
		if o.sure() && s.At.Sub(o.last) < told && (s.Op == "" || o.since.Before(s.Since)) {
			s.Level, s.Since, s.Op, s.Failure, s.Given, s.Tried = Failing, o.since, name, o.why, o.given, o.last
		}
	}
	return s.Op != ""
}
