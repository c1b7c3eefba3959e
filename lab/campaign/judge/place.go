package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

// place is what is known about the time in which a fair waiter had its place in the queue.
type place struct {
	id    string
	first history.Event // the refusal that reported the place, or a request without an answer

	came     time.Duration // call of the first request for the place
	taken    time.Duration // surely there from then on; never, if no refusal reported it
	sureEnd  time.Duration // surely there until then
	lastEnd  time.Duration // surely gone after that
	lastSeen time.Duration // call of the last request that surely kept the place
}

func (p *place) mayLive(e history.Event) bool { return p.came <= e.Answered && e.Called <= p.lastEnd }

// How long a fair place is kept after a request. A store need not renew it while three quarters
// of its time are left.
const (
	kept      = driver.FairPlaceTTL
	leastKept = kept - kept/4
)

// queue returns the fair places in the queue of a resource, in the order of the first requests
// for them. If a place ended and was taken again, only the time until its first end counts.
func queue(resource string, events []history.Event, c Circumstances) (all []*place) {
	byID := make(map[string]*place)
	for _, e := range inOrder(events, history.Acquire) {
		if e.Resource != resource || e.Place == "" || !e.Fair || e.BySelf {
			continue
		}
		p := byID[e.Place]
		if p == nil {
			p = &place{id: e.Place, first: e, came: e.Called, taken: never, sureEnd: never}
			byID[e.Place] = p
			all = append(all, p)
		}
		switch e.Outcome {
		case history.Held:
			p.lastEnd = max(p.lastEnd, plus(e.Answered, kept))
			switch {
			case e.Position < 0 || p.sureEnd < e.Called:
			case p.taken == never:
				p.first, p.taken, p.lastSeen = e, e.Answered, e.Called
			case e.Answered <= p.lastSeen+leastKept && e.Shared == p.first.Shared && e.Limit == p.first.Limit:
				p.lastSeen = e.Called
			default:
				p.sureEnd = min(p.sureEnd, p.lastSeen+leastKept)
			}
		default: // a grant removes the place, and a request without an answer may
			p.sureEnd = min(p.sureEnd, e.Called)
			p.lastEnd = max(p.lastEnd, plus(e.Answered, kept+c.Grace))
		}
	}
	for _, e := range inOrder(events, history.Release) {
		if p := byID[e.Place]; p != nil && e.Place != "" {
			p.sureEnd = min(p.sureEnd, e.Called)
		}
	}
	for _, p := range all {
		if p.taken != never {
			p.sureEnd = min(p.sureEnd, p.lastSeen+leastKept)
		}
		for _, loss := range c.Losses {
			if p.came <= loss.To {
				p.sureEnd = min(p.sureEnd, loss.From)
			}
		}
		for _, crash := range c.Crashes {
			if p.came <= crash.To && p.taken > crash.From-c.Grace {
				p.sureEnd = min(p.sureEnd, crash.From)
			}
		}
	}
	return all
}

// turns finds grants that passed a fair waiter: the place surely existed when the hold was
// requested, and the acquirer had no earlier place.
func turns(resource string, all []*span, events []history.Event, c Circumstances) (found []Violation) {
	places := queue(resource, events, c)
	came := make(map[string]time.Duration) // call of the first request with each place
	for _, e := range inOrder(events, history.Acquire) {
		if _, again := came[e.Place]; !again {
			came[e.Place] = e.Called
		}
	}
	for _, s := range all {
		own := s.first.Place
		for _, p := range places {
			excluded := !s.first.Shared || !p.first.Shared || s.first.Limit != p.first.Limit
			behind := own == "" || came[own] > p.taken
			if s.granted && excluded && behind && p.id != own && p.taken < s.called && s.answered < p.sureEnd {
				found = append(found, Violation{
					Turns, fmt.Sprintf("granted to %s at %v, and passed %s, which had its place from %v to %v",
						s.first.LockID, s.answered, p.first.LockID, p.taken, p.sureEnd),
					[]history.Event{p.first, s.first},
				})
			}
		}
	}
	return found
}
