package drivertest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Judge returns the faults of a history, for every possible order of overlapping calls. It
// checks the guarantees, not how a store decides:
//
//   - There are never two exclusive holds, an exclusive and a shared hold, two holds of one
//     lock ID, shared holds with different limits, or more shared holds than their limit.
//   - No request is granted before the end of a hold that is in the way and, unless that hold
//     was released, of its takeover delay. No request is refused if nothing can be in the way.
//   - Tokens rise.
//   - A hold is not lost before its end, and not renewed after it.
//   - A list has all holds that exist throughout, no hold that is gone, and only promised
//     ends.
//
// Judge does not know holds that existed before the history began. It distinguishes the
// acquisitions of one hold ID by their tokens.
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
	holds  []*logged // granted holds, in the order of their first answers
	maybe  []Event   // acquires without an answer: they may have been granted
	wrongs []string
}

// logged is a hold with the requests about it.
type logged struct {
	Event             // its first grant
	first    Moment   // when it was first requested
	renewals []Event  // renewals that may have been about it
	releases []Event  // releases that may have been about it
	lostAt   []Moment // when an answer said that it was lost
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
			// A request without an answer may still be under way.
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

// matches reports whether the hold matches the ref, by the rules of driver.HoldRef.
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

// soonestEnd returns the time until which the hold must live, as far as was known at m.
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

// latestEnd returns the time at which the hold must have expired, by the requests before m.
func (h *logged) latestEnd(m Moment) time.Duration {
	end := plus(h.Answered.Time, h.TTL)
	for _, r := range h.renewals {
		switch {
		case r.Called.Order >= m.Order:
		case r.Outcome == Unknown: // it may still be under way
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
		// A hold that was released with a delay is lost before its end.
		if at.Order < m.Order && !h.released(at) {
			end = min(end, at.Time)
		}
	}
	return end
}

// released reports whether a release was sent before m, so that the takeover delay may not
// apply.
func (h *logged) released(m Moment) bool {
	return slices.ContainsFunc(h.releases, func(r Event) bool { return r.Called.Order <= m.Order })
}

// surelyLive reports whether the hold cannot have reached its end before m.
func (h *logged) surelyLive(m Moment) bool {
	return h.Answered.Order <= m.Order && m.Time < h.soonestEnd(m)
}

// surelyBlocks reports whether nothing that the hold excludes can be granted before m.
func (h *logged) surelyBlocks(m Moment) bool {
	end := h.soonestEnd(m)
	if !h.released(m) {
		end = plus(end, h.TakeoverDelay)
	}
	return h.Answered.Order <= m.Order && m.Time < end
}

// mayBlock reports whether the hold can have been in the way of a call from m to n.
func (h *logged) mayBlock(m, n Moment) bool {
	if h.first.Order > n.Order || h.surelyReleased(m) {
		return false
	}
	// This ignores releases with a delay that ended the takeover delay: the hold may seem to
	// block for longer than it does.
	return m.Time < plus(h.latestEnd(m), h.TakeoverDelay)
}

// mayLive is like mayBlock, but only until the end of the hold.
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
