// Package judge checks the history of a fault campaign: could it have happened with locks that
// keep their promises? It compares intervals of time. It shares no code with the stores, and
// none with package linear, which searches for an order of decisions: a mistake in one of them
// is found by the others.
//
// It reports only what is certain. A hold surely lives from the answer that granted it until
// its TTL has passed since the call that acquired or last renewed it. So a slow network never
// leads to a wrong report, as long as the store's clock is as fast as the clock of the
// processes.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

// Rule is a promise of locks.
type Rule string

// The rules.
const (
	Exclusion Rule = "exclusion" // no grant while an excluding hold lives or blocks
	Limits    Rule = "limit"     // no more shared holds than the limit
	Tokens    Rule = "token"     // tokens rise
	Orphans   Rule = "orphan"    // no refusal without a holder
	Beliefs   Rule = "belief"    // no two holders rely on excluding locks at the same time
	Waiters   Rule = "waiter"    // a waiter is served or gives up in time
	Turns     Rule = "turn"      // no grant passes a fair waiter that came before
	Writes    Rule = "write"     // no write with a token lower than one that has been written
	Order     Rule = "order"     // some order of decisions explains the store's answers; checked by package linear
)

// Violation is a broken promise with the events that show it.
type Violation struct {
	Rule   Rule
	Text   string
	Events []history.Event
}

// Circumstances are the conditions of a campaign that the promises depend on.
type Circumstances struct {
	// Grace is how long a request may still reach the store after its caller has stopped
	// waiting.
	Grace time.Duration
	// Slack is how late a waiter may give up.
	Slack time.Duration
	// Away are the times in which no request reached the store. A request whose caller stopped
	// waiting during such a time was decided before it, or never.
	Away []history.Interval
	// Losses are periods in each of which the store lost its data, at an unknown moment. No
	// hold surely survives one, and holders may wrongly rely on their locks afterwards; tokens
	// must rise all the same.
	Losses []history.Interval
	// Crashes are periods in each of which the store may have lost places in the queue that it
	// had confirmed at most Grace before, and nothing else.
	Crashes []history.Interval
	// Clocked means that holds of the same moment may have the same token.
	Clocked bool
	// Register is the kind of the register that loses its data with the store; "": none.
	Register string
	// Resent means that a client library repeats a request without an answer, within one call.
	Resent bool
	// Killed contains the killed processes, by their numbers.
	Killed map[int]bool
}

// Violations returns the broken promises.
func Violations(events []history.Event, c Circumstances) (found []Violation) {
	byResource := spans(events, c)
	for _, resource := range history.Resources(events) {
		all := byResource[resource]
		for _, s := range all {
			for _, loss := range c.Losses {
				if s.called <= loss.To {
					s.released = min(s.released, loss.From)
				}
			}
		}
		found = append(found, exclusion(all)...)
		found = append(found, limits(all)...)
		found = append(found, tokens(all, c.Clocked)...)
		found = append(found, orphans(resource, all, events, c)...)
		found = append(found, turns(resource, all, events, c)...)
	}
	found = append(found, beliefs(events, c)...)
	found = append(found, waiters(events, c)...)
	return append(found, writes(events, c)...)
}

// during reports whether s was surely granted while other was granted and blocked it.
func (s *span) during(other *span) bool {
	return other.granted && other.answered <= s.called && s.answered < other.blocksUntil()
}

func exclusion(all []*span) (found []Violation) {
	for _, s := range all {
		for _, other := range all {
			if s != other && s.granted && s.excludes(other) && s.during(other) {
				found = append(found, Violation{
					Exclusion, fmt.Sprintf("granted to %s at %v, while the hold of %s blocked it until %v",
						s.first.LockID, s.answered, other.first.LockID, other.blocksUntil()),
					[]history.Event{other.first, s.first},
				})
			}
		}
	}
	return found
}

func limits(all []*span) (found []Violation) {
	for _, s := range all {
		if !s.granted || s.first.Limit == 0 {
			continue
		}
		seen := []history.Event{s.first}
		for _, other := range all {
			if s != other && other.first.Shared && s.during(other) {
				seen = append(seen, other.first)
			}
		}
		if len(seen) > s.first.Limit {
			found = append(found, Violation{
				Limits, fmt.Sprintf("granted to %s at %v as number %d of %d", s.first.LockID, s.answered, len(seen), s.first.Limit), seen,
			})
		}
	}
	return found
}

func tokens(all []*span, clocked bool) (found []Violation) {
	granted := slices.DeleteFunc(slices.Clone(all), func(s *span) bool { return !s.granted })
	for _, s := range granted {
		for _, later := range granted {
			switch {
			case s == later:
			case s.token == later.token && s.first.HoldID < later.first.HoldID && !clocked,
				s.answered < later.called && s.token > later.token:
				found = append(found, Violation{
					Tokens, fmt.Sprintf("token %d of %s, and then token %d of %s", s.token, s.first.LockID, later.token, later.first.LockID),
					[]history.Event{s.first, later.first},
				})
			}
		}
	}
	return found
}

// orphans finds refusals without a possible cause.
func orphans(resource string, all []*span, events []history.Event, c Circumstances) (found []Violation) {
	places := queue(resource, events, c)
	for _, e := range inOrder(events, history.Acquire) {
		if e.Resource != resource || e.Outcome != history.Held {
			continue
		}
		shared, cause := 0, false
		for _, s := range all {
			if s.called > e.Answered || s.mayBlockUntil() < e.Called {
				continue
			}
			shared++
			cause = cause || !s.first.Shared || !e.Shared || s.first.LockID == e.LockID || s.first.Limit != e.Limit
		}
		// A waiter ahead counts like a holder.
		cause = cause || e.Behind && slices.ContainsFunc(places, func(p *place) bool { return p.id != e.Place && p.mayLive(e) })
		if !cause && (e.Limit == 0 || shared < e.Limit) {
			found = append(found, Violation{
				Orphans, fmt.Sprintf("%s was refused from %v to %v, when nobody held it", e.LockID, e.Called, e.Answered), []history.Event{e},
			})
		}
	}
	return found
}

// beliefs finds holders that relied on their locks at the same time.
func beliefs(events []history.Event, c Circumstances) (found []Violation) {
	all := inOrder(events, history.Believe)
	asked := make(map[string]time.Duration) // first request for each hold
	for _, e := range inOrder(events, history.Acquire) {
		if _, again := asked[e.HoldID]; !again {
			asked[e.HoldID] = e.Called
		}
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.Resource != b.Resource || a.HoldID == b.HoldID || a.Shared && b.Shared || b.Called >= min(a.Until, a.Answered) || min(b.Until, b.Answered) <= b.Called {
				continue
			}
			from, known := asked[a.HoldID]
			if !known {
				from = a.Called
			}
			if !c.lost(from, b.Called) {
				found = append(found, Violation{
					Beliefs, fmt.Sprintf("%s relied on its lock until %v, and %s on its own from %v", a.LockID, min(a.Until, a.Answered), b.LockID, b.Called),
					[]history.Event{a, b},
				})
			}
		}
	}
	return found
}

// waiters finds waiters that waited for too long.
func waiters(events []history.Event, c Circumstances) (found []Violation) {
	for _, e := range inOrder(events, history.Wait) {
		if c.Killed[e.Process] && e.Outcome == history.Unknown {
			continue
		}
		if late := e.Answered - e.Until; late > c.Slack || e.Outcome == history.Unknown {
			found = append(found, Violation{
				Waiters, fmt.Sprintf("%s waited for %v, %v longer than allowed: %s", e.LockID, e.Answered-e.Called, late, cmp.Or(e.Why, string(e.Outcome))),
				[]history.Event{e},
			})
		}
	}
	return found
}

// writes finds accepted writes that came after one with a higher token.
func writes(events []history.Event, c Circumstances) (found []Violation) {
	type place struct{ register, resource string }
	byPlace := make(map[place][]history.Event)
	for _, e := range inOrder(events, history.Write) {
		if e.Outcome == history.Done {
			byPlace[place{e.Register, e.Resource}] = append(byPlace[place{e.Register, e.Resource}], e)
		}
	}
	for at, accepted := range byPlace {
		for i, e := range accepted {
			var highest history.Event // among writes answered before
			for _, before := range accepted[:i] {
				forgotten := at.register == c.Register && c.lost(before.Called, e.Answered)
				if before.Answered < e.Called && before.Token > highest.Token && !forgotten {
					highest = before
				}
			}
			if e.Token < highest.Token {
				found = append(found, Violation{
					Writes, fmt.Sprintf("%s wrote with token %d from %v, when token %d had been written", e.LockID, e.Token, e.Called, highest.Token),
					[]history.Event{highest, e},
				})
			}
		}
	}
	return found
}

// lost reports whether the store lost data in that time.
func (c Circumstances) lost(from, to time.Duration) bool {
	return slices.ContainsFunc(c.Losses, func(l history.Interval) bool { return l.To >= from && l.From <= to })
}
