package judge

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

const never = time.Duration(math.MaxInt64)

// plus returns the time d after t, or never.
func plus(t, d time.Duration) time.Duration {
	if d == history.Forever || t > never-d {
		return never
	}
	return t + d
}

// span is what is known about the time in which a hold lived.
type span struct {
	first   history.Event // its first acquire
	granted bool          // an answer reported the grant
	token   uint64

	called, answered time.Duration // enclose the decision to grant it, if it was granted

	sureEnd  time.Duration // lives until then, at least
	lastEnd  time.Duration // and until then, at most
	lateEnd  time.Duration // or until then, if an acquire without an answer arrived after a release
	released time.Duration // call of the first release; never, if there is none
}

// blocksUntil returns until when the hold surely blocks others.
func (s *span) blocksUntil() time.Duration {
	if s.released < s.sureEnd {
		return s.released
	}
	return min(plus(s.sureEnd, s.first.Delay), s.released)
}

// mayBlockUntil returns until when the hold may block others.
func (s *span) mayBlockUntil() time.Duration {
	return plus(max(s.lastEnd, s.lateEnd), s.first.Delay)
}

// excludes reports whether two holds must not live at the same time.
func (s *span) excludes(other *span) bool {
	return !s.first.Shared || !other.first.Shared || s.first.Limit != other.first.Limit
}

// name identifies a hold.
type name struct{ resource, lockID, holdID string }

func nameOf(e history.Event) name { return name{e.Resource, e.LockID, e.HoldID} }

// spans collects what is known about each hold. A request without an answer may be decided
// until grace after its caller stopped waiting.
func spans(events []history.Event, c Circumstances) map[string][]*span {
	byName := make(map[name]*span)
	byResource := make(map[string][]*span)
	events = slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool {
		return e.Outcome == history.Unknown && slices.ContainsFunc(c.Away, func(a history.Interval) bool { return a.From <= e.Called && e.Answered <= a.To })
	})
	latest := func(e history.Event) time.Duration {
		if e.Outcome != history.Unknown {
			return e.Answered
		}
		at := plus(e.Answered, c.Grace)
		for _, a := range c.Away {
			if e.Answered <= a.To {
				at = min(at, a.From)
			}
		}
		return at
	}
	for _, e := range inOrder(events, history.Acquire) {
		if e.Outcome == history.Held {
			continue
		}
		s := byName[nameOf(e)]
		if s == nil {
			s = &span{first: e, called: e.Called, released: never}
			byName[nameOf(e)] = s
			byResource[e.Resource] = append(byResource[e.Resource], s)
		}
		if e.Outcome == history.Unknown {
			s.lateEnd = max(s.lateEnd, plus(latest(e), e.TTL))
			continue
		}
		s.lastEnd = max(s.lastEnd, plus(e.Answered, e.TTL))
		if !s.granted {
			s.granted, s.token, s.answered = true, e.Token, e.Answered
			s.sureEnd = plus(s.called, e.TTL)
		}
	}
	for _, e := range inOrder(events, history.Renew) {
		s := byName[nameOf(e)]
		if s == nil || e.Outcome == history.Lost {
			continue
		}
		s.lastEnd = max(s.lastEnd, plus(latest(e), e.TTL))
		if e.Outcome == history.Done {
			s.sureEnd = max(s.sureEnd, plus(e.Called, e.TTL))
		}
	}
	for _, e := range inOrder(events, history.Release) {
		s := byName[nameOf(e)]
		if s == nil {
			continue
		}
		s.released = min(s.released, e.Called)
		if e.Outcome == history.Done {
			s.lastEnd = min(s.lastEnd, e.Answered)
		}
	}
	return byResource
}

// inOrder returns the events of a kind, in the order of their calls.
func inOrder(events []history.Event, kind history.Kind) []history.Event {
	some := slices.DeleteFunc(slices.Clone(events), func(e history.Event) bool { return e.Kind != kind })
	slices.SortStableFunc(some, func(a, b history.Event) int { return cmp.Compare(a.Called, b.Called) })
	return some
}
