// Package judge finds out whether what the processes of a fault campaign saw can have
// happened with locks that keep their promises. It compares intervals of time, and
// shares no code with what grants locks, nor with the search for an order of decisions
// in package linear: a fault in one of them does not hide from the other.
//
// It goes by what is certain: a hold lives for certain from the answer that granted
// it until its TTL after the call, or the call that renewed it, has passed. So it
// blames nobody wrongly however slow a network is, as long as the store's clock goes
// as fast as that of the processes.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

// Rule is a promise.
type Rule string

// The rules.
const (
	Exclusion Rule = "exclusion" // nothing is granted while what excludes it lives or blocks
	Limits    Rule = "limit"     // no more shared holds than the limit
	Tokens    Rule = "token"     // tokens rise
	Orphans   Rule = "orphan"    // what nobody holds is not refused
	Beliefs   Rule = "belief"    // no two go by locks that exclude one another
	Waiters   Rule = "waiter"    // who waits is served or gives up in time
	Turns     Rule = "turn"      // nobody passes a fair waiter that came before
	Writes    Rule = "write"     // nothing is written with a token lower than one that has been written
	Order     Rule = "order"     // the store's answers are those of some order of decisions; judged by package linear
)

// Violation is a broken promise and the events that show it.
type Violation struct {
	Rule   Rule
	Text   string
	Events []history.Event
}

// Circumstances are what the promises depend on.
type Circumstances struct {
	// Grace is how long after nobody waits for it a request may still reach the
	// store.
	Grace time.Duration
	// Slack is how late a waiter may be.
	Slack time.Duration
	// Away is when nothing reached the store: what somebody waited for until then at
	// most was decided before, or never.
	Away []history.Interval
	// Losses are when the store lost its data, at a moment in each that nobody knows.
	// Nothing is known to live beyond one, and beliefs may be wrong; tokens rise all the
	// same.
	Losses []history.Interval
	// Clocked says that holds of one moment may have the same token.
	Clocked bool
	// Register is one that loses its data with the store; "": none does.
	Register string
	// Resent says that a client library sends a request without an answer again, within one
	// call.
	Resent bool
	// Killed says which processes were killed, by their number.
	Killed map[int]bool
}

// Violations are the promises that were broken.
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

// during reports whether the decision to grant s was surely made while other was
// granted and stood in the way.
func (s *span) during(other *span) bool {
	return other.granted && other.answered <= s.called && s.answered < other.blocksUntil()
}

func exclusion(all []*span) (found []Violation) {
	for _, s := range all {
		for _, other := range all {
			if s != other && s.granted && s.excludes(other) && s.during(other) {
				found = append(found, Violation{
					Exclusion, fmt.Sprintf("granted to %s at %v, while that of %s stood in the way until %v",
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

// orphans finds refusals for which nothing can have been the cause.
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
		// A waiter ahead counts as a holder.
		cause = cause || e.Behind && slices.ContainsFunc(places, func(p *place) bool { return p.id != e.Place && p.mayLive(e) })
		if !cause && (e.Limit == 0 || shared < e.Limit) {
			found = append(found, Violation{
				Orphans, fmt.Sprintf("%s was refused from %v to %v, when nobody held it", e.LockID, e.Called, e.Answered), []history.Event{e},
			})
		}
	}
	return found
}

// beliefs finds holders who went by their locks at the same time.
func beliefs(events []history.Event, c Circumstances) (found []Violation) {
	all := inOrder(events, history.Believe)
	asked := make(map[string]time.Duration) // when each hold was
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
					Beliefs, fmt.Sprintf("%s went by its lock until %v, and %s by its own from %v", a.LockID, min(a.Until, a.Answered), b.LockID, b.Called),
					[]history.Event{a, b},
				})
			}
		}
	}
	return found
}

// waiters finds those who waited for longer than they were to.
func waiters(events []history.Event, c Circumstances) (found []Violation) {
	for _, e := range inOrder(events, history.Wait) {
		if c.Killed[e.Process] && e.Outcome == history.Unknown {
			continue
		}
		if late := e.Answered - e.Until; late > c.Slack || e.Outcome == history.Unknown {
			found = append(found, Violation{
				Waiters, fmt.Sprintf("%s waited for %v, %v longer than it was to: %s", e.LockID, e.Answered-e.Called, late, cmp.Or(e.Why, string(e.Outcome))),
				[]history.Event{e},
			})
		}
	}
	return found
}

// writes finds those that came after one with a higher token and were not refused.
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
			var highest history.Event // of those that were answered before
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

// lost reports whether data were lost in that time.
func (c Circumstances) lost(from, to time.Duration) bool {
	return slices.ContainsFunc(c.Losses, func(l history.Interval) bool { return l.To >= from && l.From <= to })
}
