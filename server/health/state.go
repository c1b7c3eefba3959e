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

// String is the level for programs: ok, degraded, ending, starting, failing or replaced.
func (l Level) String() string {
	return [...]string{"ok", "degraded", "ending", "starting", "failing", "replaced"}[l]
}

// State is what is known of the store at a time. Nothing in it is a secret.
type State struct {
	Level Level
	// At is the time, and Since when it began to be so. Since is zero if it does not matter.
	At, Since time.Time
	// Answered is when a call was answered last, zero if none was.
	Answered time.Time
	// Calls are those of the last minute, and Failed those of them that were not answered.
	// Those whose caller hung up, or had too little time, are left out.
	Calls, Failed int
	// Op is the operation of which no call is answered, although others are: acquire, renew or
	// release; and Tried when one was tried last. They are zero if it is not so.
	Op    string
	Tried time.Time
	// Failure is why the last call failed that did, and Given how much time it had.
	Failure Failure
	Given   time.Duration
	// Wait is how long after Since holders of a store that was replaced may still work:
	// driver.Unknown if nothing limits their TTLs. Endless: some holds may have no end.
	Wait    time.Duration
	Endless bool
}

// Says says in a few sentences what is so, since when, what that means for locks, and what to do.
func (s State) Says() string {
	switch s.Level {
	case Degraded:
		return fmt.Sprintf("%d of %s in the last minute got no answer: %s. Locks go on, but some requests are refused or late.",
			s.Failed, words.Count(s.Calls, "call of the store", "calls of the store"), s.why())
	case Ending:
		return "This server is ending: requests should go to another one."
	case Starting:
		says := "The store has not answered yet, for " + s.ago(s.Since)
		if s.Failure != None {
			says = "The store is not prepared yet, for " + s.ago(s.Since) + ": " + s.why()
		}
		return says + ". No lock is granted until it is prepared."
	case Failing:
		return s.saysFailing()
	case Replaced:
		return s.saysReplaced()
	}
	return "The store answers: the last call was " + s.ago(s.Answered) + " ago."
}

// opNames are the operations that locks need.
var opNames = map[string]string{"acquire": "acquire", "renew": "renewal", "release": "release", "init": "preparation"}

func (s State) saysFailing() string {
	if s.Op == "" {
		return fmt.Sprintf("No call of the store has been answered for %s: %s. Nothing is granted, renewed or released, and holds end by their TTLs.",
			s.ago(s.Since), s.why())
	}
	return fmt.Sprintf("No %s has been answered for %s, although the store answers other calls: %s. The last one was tried %s ago.",
		opNames[s.Op], s.ago(s.Since), s.why(), s.ago(s.Tried))
}

func (s State) saysReplaced() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The store is another one, or has lost its data: that was seen %s ago. No lock is granted, because those who hold one of the old "+
		"store may still work. If the old store comes back, the server goes on by itself. If it is gone, ", s.ago(s.Since))
	left := s.Wait - s.At.Sub(s.Since)
	switch {
	case s.Wait == driver.Unknown:
		b.WriteString("wait for the longest TTL that your programs ask for")
	case left > 0:
		fmt.Fprintf(&b, "wait for %s more, until the longest TTL of the auth file is over", duration(left))
	default:
		b.WriteString("the longest TTL of the auth file is over")
	}
	b.WriteString(", or stop all holders")
	if s.Endless || s.Wait == driver.Unknown {
		b.WriteString(" (holds without an end do not end by themselves)")
	}
	b.WriteString("; then restart all servers of the store.")
	return b.String()
}

// why says why calls fail. What the store said of itself is for the log: it may have secrets.
func (s State) why() string {
	switch s.Failure {
	case Silent:
		return "it was not answered within " + duration(s.Given)
	case Unusable:
		return "the store cannot be used until somebody mends it, as the server's log says"
	}
	return "the store is not reached, or does not answer as it should, as the server's log says"
}

func (s State) ago(t time.Time) string { return duration(s.At.Sub(t)) }

func duration(d time.Duration) string { return words.Duration(max(d, time.Second).Round(time.Second)) }
