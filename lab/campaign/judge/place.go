package judge

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

// place is what is known about when a fair waiter had its place in the queue.
type place struct {
	id    string
	first history.Event // the refusal that gave it, or a request without an answer

	came     time.Duration // the first request for it was called
	taken    time.Duration // it is there from then on, at the latest; never if nobody was told
	sureEnd  time.Duration // until then at least
	lastEnd  time.Duration // and until then at most
	lastSeen time.Duration // when the last request that surely kept it was called
}

func (p *place) mayLive(e history.Event) bool { return p.came <= e.Answered && e.Called <= p.lastEnd }

// For how long after a request a fair place is kept: a store need not renew it while three
// quarters of its time are left.
const (
	kept      = driver.FairPlaceTTL
	leastKept = kept - kept/4
)

// queue returns the fair places in the queue of a resource, in the order of the first
// requests for them. One that ended and was taken again counts until its first end.
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
		default: // a grant takes it out of the queue, and may have
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
	}
	return all
}

// turns finds grants that passed a fair waiter: the hold was asked for when the place was
// there, and its acquirer had none before.
func turns(resource string, all []*span, events []history.Event, c Circumstances) (found []Violation) {
	places := queue(resource, events, c)
	came := make(map[string]time.Duration) // when the first request with each place was called
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
