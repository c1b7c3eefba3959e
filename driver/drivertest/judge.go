package drivertest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Judge returns what is wrong in a history, in any order of the calls that
// overlapped. It checks the guarantees, not how a store decides:
//
//   - never two exclusive holds, an exclusive beside a shared one, two holds of
//     one lock ID, shared holds of different limits, nor more of them than that;
//   - nothing is granted before the end of what is in the way, and its takeover
//     delay unless that was released, nor refused when nothing can be;
//   - tokens rise;
//   - a hold is not lost before its end, and not renewed after it;
//   - a list shows what is there throughout, nothing that is gone, and no other
//     end than was promised.
//
// Holds that were there before the history began are unknown to it. It tells the
// acquisitions of one hold ID apart by their tokens.
func Judge(events []Event) (wrongs []string) {
	byResource := make(map[string][]Event)
	for _, e := range events {
		if e.Op != List && !e.Leaves() {
			byResource[e.Ref.Resource] = append(byResource[e.Ref.Resource], e)
		}
	}
	trials := make(map[string]*trial)
	for _, resource := range sortedKeys(byResource) {
		tr := newTrial(byResource[resource])
		trials[resource] = tr
		tr.judgeTokens()
		for _, e := range tr.events {
			switch {
			case e.Op == Acquire && e.Outcome == Held:
				tr.judgeRefusal(e)
			case e.Op == Renew && e.Outcome == Lost:
				tr.judgeLoss(e)
			case e.Op == Renew && e.Outcome == Done:
				tr.judgeRenewal(e)
			}
		}
		for _, h := range tr.holds {
			tr.judgeGrant(h)
		}
		wrongs = append(wrongs, tr.wrongs...)
	}
	for _, e := range events {
		if e.Op == List {
			wrongs = append(wrongs, judgeList(e, trials)...)
		}
	}
	return wrongs
}

func sortedKeys(m map[string][]Event) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// trial is the history of one resource.
type trial struct {
	events []Event
	holds  []*logged // granted, in the order of their first answer
	maybe  []Event   // acquires without an answer: they may have been granted
	wrongs []string
}

// logged is a hold and what was done about it.
type logged struct {
	Event             // its first grant
	first    Moment   // when it was first asked for
	renewals []Event  // that may have been about it
	releases []Event  // likewise
	lostAt   []Moment // when an answer said that it is lost
}

func newTrial(events []Event) *trial {
	tr := &trial{events: events}
	slices.SortStableFunc(tr.events, func(a, b Event) int { return cmp.Compare(a.Answered.Order, b.Answered.Order) })
	for _, e := range tr.events {
		switch {
		case e.Op != Acquire:
		case e.Outcome == Unknown:
			tr.maybe = append(tr.maybe, e)
		case e.Outcome == Done:
			if !slices.ContainsFunc(tr.holds, func(h *logged) bool { return h.Ref == e.Ref }) {
				tr.holds = append(tr.holds, &logged{Event: e, first: e.Called})
			}
		}
	}
	for _, h := range tr.holds {
		for _, m := range tr.maybe {
			if m.Ref.HoldID == h.Ref.HoldID && m.Ref.LockID == h.Ref.LockID && m.Called.Order < h.first.Order {
				h.first = m.Called
			}
		}
		for _, e := range tr.events {
			// What has no answer may still be on its way.
			over := e.Outcome != Unknown && e.Answered.Order < h.first.Order
			if e.Op == Acquire || over || !matches(h.Ref, e.Ref) {
				continue
			}
			switch {
			case e.Op == Release:
				h.releases = append(h.releases, e)
			case e.Outcome == Lost && e.Ref == h.Ref:
				h.lostAt = append(h.lostAt, e.Answered)
			case e.Outcome != Lost:
				h.renewals = append(h.renewals, e)
			}
		}
	}
	return tr
}

// matches is what package driver says about HoldRef.
func matches(hold, ref driver.HoldRef) bool {
	return hold.Resource == ref.Resource && hold.LockID == ref.LockID &&
		(ref.HoldID.IsZero() || hold.HoldID == ref.HoldID) &&
		(ref.Token == 0 || hold.Token == ref.Token)
}

const never = time.Duration(math.MaxInt64)

func plus(t, d time.Duration) time.Duration {
	if d == driver.Forever || t > never-d {
		return never
	}
	return t + d
}

// soonestEnd is until when the hold must live, as far as was known at m.
func (h *logged) soonestEnd(m Moment) time.Duration {
	end := plus(h.first.Time, h.TTL)
	for _, r := range h.renewals {
		if r.Outcome == Done && r.Ref == h.Ref && r.Answered.Order <= m.Order {
			end = max(end, plus(r.Called.Time, r.TTL))
		}
	}
	for _, r := range h.releases {
		if r.Called.Order <= m.Order {
			end = min(end, plus(r.Called.Time, r.After))
		}
	}
	return end
}

// latestEnd is when the hold must be past its end, by the requests before m.
func (h *logged) latestEnd(m Moment) time.Duration {
	end := plus(h.Answered.Time, h.TTL)
	for _, r := range h.renewals {
		switch {
		case r.Called.Order >= m.Order:
		case r.Outcome == Unknown: // it may still be on its way
			end = never
		default:
			end = max(end, plus(r.Answered.Time, r.TTL))
		}
	}
	for _, r := range h.releases {
		if r.Outcome == Done && h.Answered.Order < r.Called.Order && r.Answered.Order < m.Order {
			end = min(end, plus(r.Answered.Time, r.After))
		}
	}
	for _, at := range h.lostAt {
		// A hold that was given up with a delay is lost before its end.
		if at.Order < m.Order && !h.released(at) {
			end = min(end, at.Time)
		}
	}
	return end
}

// released reports whether a release was sent before m, so that the takeover delay
// may not apply.
func (h *logged) released(m Moment) bool {
	return slices.ContainsFunc(h.releases, func(r Event) bool { return r.Called.Order <= m.Order })
}

// surelyLive: the hold cannot have come to its end before m.
func (h *logged) surelyLive(m Moment) bool {
	return h.Answered.Order <= m.Order && m.Time < h.soonestEnd(m)
}

// surelyBlocks: nothing that the hold excludes can be granted before m.
func (h *logged) surelyBlocks(m Moment) bool {
	end := h.soonestEnd(m)
	if !h.released(m) {
		end = plus(end, h.TakeoverDelay)
	}
	return h.Answered.Order <= m.Order && m.Time < end
}

// mayBlock: the hold can have been in the way of a call from m to n.
func (h *logged) mayBlock(m, n Moment) bool {
	if h.first.Order > n.Order || h.surelyReleased(m) {
		return false
	}
	// A release with a delay that did away with the takeover delay is not
	// looked for: the hold only seems to block for longer than it does.
	return m.Time < plus(h.latestEnd(m), h.TakeoverDelay)
}

// mayLive: likewise, before its end.
func (h *logged) mayLive(m, n Moment) bool {
	return h.first.Order <= n.Order && !h.surelyReleased(m) && m.Time < h.latestEnd(m)
}

func (h *logged) surelyReleased(m Moment) bool {
	return slices.ContainsFunc(h.releases, func(r Event) bool {
		return r.Outcome == Done && r.After == 0 && h.Answered.Order < r.Called.Order && r.Answered.Order < m.Order
	})
}

func (tr *trial) wrong(format string, args ...any) {
	tr.wrongs = append(tr.wrongs, fmt.Sprintf(format, args...))
}
