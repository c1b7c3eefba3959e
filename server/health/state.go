package health

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

// Level is how well the store does, as far as is known.
type Level int

// The levels.
const (
	OK       Level = iota
	Degraded       // it answers, but some calls of the last minute failed
	Ending         // it answers, and the server ends
	Starting       // it has not answered yet, or is not prepared: no lock is granted
	Failing        // no call has been answered lately, or none of an operation of locks
	Replaced       // it is another one, or has lost its data: no lock is granted
)

// State is what is known of the store at a time. Nothing in it is a secret.
type State struct {
	Level Level
	// At is the time, and Since when it began to be so. Since is zero if it does not matter.
	At, Since time.Time
	says      string
}

// sinceMark stands in says for the time since Since.
const sinceMark = "\x00"

// Says says in a few sentences what is so, since when, what that means for locks, and what to do.
func (s State) Says() string {
	return strings.ReplaceAll(s.says, sinceMark, duration(s.At.Sub(s.Since)))
}

// Parts returns what Says says before the time since Since, and after it. Without that time,
// there is no part after it.
func (s State) Parts() (before, after string) {
	before, after, _ = strings.Cut(s.says, sinceMark)
	return before, after
}

// Now returns what is known now.
func (l *Log) Now() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	ago := func(t time.Time) string { return duration(now.Sub(t)) }
	is := func(level Level, since time.Time, format string, args ...any) State {
		return State{level, now, since, fmt.Sprintf(format, args...)}
	}
	silent := l.silent.sure() || l.silent.why == Silent
	op, refused := l.longestRefused(now)
	switch {
	case !l.replaced.IsZero():
		return is(Replaced, l.replaced, "The store is another one, or has lost its data: that was seen "+sinceMark+" ago. No lock is granted, because "+
			"those who hold one of the old store may still work. If the old store comes back, the server goes on by itself. "+
			"If it is gone, %s; then restart all servers of the store.", l.untilSafe(now))
	case l.preparing, l.answered.IsZero() && !silent:
		says, failed := "The store has not answered yet, for "+sinceMark, l.failed
		if l.preparing {
			failed = l.unprepared
		}
		if failed.why != None {
			says = "The store could not be prepared for " + sinceMark + ": " + failed.reason()
		}
		return is(Starting, l.began, "%s. No lock is granted until it is prepared.", says)
	case silent:
		return is(Failing, l.silent.since, "No call of the store has been answered for "+sinceMark+": %s. "+
			"Nothing is granted, renewed or released, and holds end by their TTLs.", l.silent.reason())
	case op != "":
		return is(Failing, refused.since, "No %s has been answered for "+sinceMark+", although the store answers other calls: %s.",
			opNames[op], refused.reason())
	case l.ending:
		return is(Ending, time.Time{}, "This server is ending: requests should go to another one.")
	case l.failed.n > 0 && now.Sub(l.failed.last) < recent:
		return is(Degraded, time.Time{}, "%s got no answer in the last %s, the last one %s ago: %s. "+
			"Locks go on, but some requests are refused or late.",
			words.Count(l.failed.n, "call of the store", "calls of the store"), ago(l.failed.since), ago(l.failed.last), l.failed.reason())
	}
	return is(OK, time.Time{}, "The store answers: the last call was %s ago.", ago(l.answered))
}

// longestRefused returns the operation whose calls have not been answered for the longest time,
// although others are, or "". One that nobody has asked for lately is not known to fail still.
func (l *Log) longestRefused(now time.Time) (op string, longest failures) {
	for name, f := range l.refused {
		told := recent
		if f.why == Unusable {
			told = unusable
		}
		if f.sure() && now.Sub(f.last) < told && (op == "" || f.since.Before(longest.since)) {
			op, longest = name, f
		}
	}
	return op, longest
}

// untilSafe says what to wait for until no holder of a store that was replaced works any more.
func (l *Log) untilSafe(now time.Time) string {
	says, endless := "the longest TTL of the auth file is over", l.endless
	if left := l.wait - now.Sub(l.replaced); l.wait == driver.Unknown {
		says, endless = "wait for the longest TTL that your programs ask for", true
	} else if left > 0 {
		says = "wait for " + duration(left) + " more, until " + says
	}
	says += ", or stop all holders"
	if endless {
		says += " (holds without an end do not end by themselves)"
	}
	return says
}

// reason says why calls fail. What the store said of itself is for the log: it may have secrets.
func (f failures) reason() string {
	switch f.why {
	case Silent:
		return "it was not answered within " + duration(f.given)
	case Unusable:
		return "the store cannot be used until somebody fixes it, as the server's log says"
	}
	return "the store is not reached, or does not answer as it should, as the server's log says"
}

func duration(d time.Duration) string { return words.Duration(max(d, time.Second).Round(time.Second)) }
