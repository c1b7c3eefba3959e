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
	// recent is for how long a call that failed is told of after others have been answered, and
	// counts as a reason to fear the same of the next one.
	recent = time.Minute
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
	answered time.Time           // when a call was answered last
	failed   failures            // the recent ones, whatever was answered since
	silent   failures            // since a call was answered
	refused  map[string]failures // of an operation that locks need, since one of it was answered

	// What the server says of the store, if there is one.
	preparing  bool
	unprepared failures
	replaced   time.Time
	wait       time.Duration
	endless    bool
	ending     bool
}

// failures are calls that have failed.
type failures struct {
	n           int
	since, last time.Time
	why         Failure       // of the last one
	given       time.Duration // to the last one
}

func (f *failures) add(now time.Time, took time.Duration, why Failure) {
	if f.n++; f.n == 1 {
		f.since = now.Add(-took)
	}
	f.last, f.why, f.given = now, why, took
}

// sure reports whether that was no accident.
func (f failures) sure() bool { return f.n >= again || f.n > 0 && f.why == Unusable }

// New returns a Log that knows nothing.
func New() *Log { return &Log{began: time.Now(), refused: map[string]failures{}} }

// Telling returns what a call of the store that has returned says of it. It reports false if that
// is nothing: the caller hung up, or had too little time.
func Telling(ctx context.Context, took time.Duration, err error) (Failure, bool) {
	why := FailureOf(err)
	hungUp := errors.Is(ctx.Err(), context.Canceled) && why != None || errors.Is(err, context.Canceled)
	return why, !hungUp && (why != Silent || took >= Patience-slack)
}

// StoreCall notes a call that has returned, as server.Observer is told of it. Calls that say
// nothing of the store are left out.
func (l *Log) StoreCall(ctx context.Context, name string, took time.Duration, err error) {
	why, ok := Telling(ctx, took, err)
	if !ok {
		return
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if why == None {
		l.answered, l.silent = now, failures{}
		delete(l.refused, name)
		return
	}
	if now.Sub(l.failed.last) >= recent {
		l.failed = failures{}
	}
	l.failed.add(now, took, why)
	if !l.answered.After(now.Add(-took)) { // others were not answered meanwhile
		l.silent.add(now, took, why)
	}
	if opNames[name] != "" { // others ask for much, and may be slow
		f := l.refused[name]
		f.add(now, took, why)
		l.refused[name] = f
	}
}

// slack is for timers that fire early.
const slack = 500 * time.Millisecond

// opNames are the operations that locks need.
var opNames = map[string]string{"acquire": "acquire", "renew": "renewal", "release": "release", "init": "preparation", "id": "look at its ID"}

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
	l.preparing, l.unprepared = true, failures{why: FailureOf(why), given: l.failed.given}
}

// Prepared notes that the store is prepared, and the one that it was.
func (l *Log) Prepared() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.preparing, l.replaced = false, time.Time{}
}

// Replaced notes that the store is another one, or has lost its data. No lock is granted.
// Holders of the old one may go on for wait, or for ever if endless. Wait is driver.Unknown if nothing limits their TTLs.
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
	l.ending = true
}
