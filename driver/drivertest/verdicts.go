package drivertest

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

func (h *logged) String() string {
	return fmt.Sprintf("hold %s of %q by %q (token %d, asked %v, granted %v)",
		h.Ref.HoldID, h.Ref.Resource, h.Ref.LockID, h.Ref.Token, h.Called.Time, h.Answered.Time)
}

// excludes reports whether the two must not live at once.
func (h *logged) excludes(g *logged) bool {
	return h.Mode == driver.Exclusive || g.Mode == driver.Exclusive || h.Ref.LockID == g.Ref.LockID || h.limitDiffers(g.Event)
}

// limitDiffers reports whether a shared request is not granted beside h because their limits
// differ.
func (h *logged) limitDiffers(e Event) bool {
	return h.Limit != e.Limit
}

// judgeTokens checks that a hold that was requested after the grant of another has the higher
// token, and that no token repeats.
func (tr *trial) judgeTokens() {
	for i, h := range tr.holds {
		for _, g := range tr.holds[i+1:] {
			switch {
			case h.Ref.Token == 0 || g.Ref.Token == 0:
			case h.Ref.Token == g.Ref.Token:
				tr.wrong("one token for two: %v and %v", h, g)
			case h.Answered.Order < g.first.Order && h.Ref.Token > g.Ref.Token:
				tr.wrong("the token fell: %v, then %v", h, g)
			}
		}
	}
}

// judgeGrant checks that nothing was in the way of g.
func (tr *trial) judgeGrant(g *logged) {
	at := g.Answered
	lives := g.surelyLive(at)
	earlier, beside, most := 0, 1, g.Limit
	for _, h := range tr.holds {
		if h == g || h.Answered.Order > at.Order || !h.surelyBlocks(at) {
			continue
		}
		// h existed during the whole request of g, or both exist now.
		before := h.Answered.Order < g.first.Order
		both := lives && h.surelyLive(at)
		switch {
		case h.excludes(g):
			if before || both {
				tr.wrong("granted in spite of another: %v, in spite of %v", g, h)
			}
			continue
		case before:
			earlier++
		}
		if both {
			beside++
			if h.Limit == 0 {
				most = 0
			}
			if most > 0 { // the holds may have different limits: the largest counts
				most = max(most, h.Limit)
			}
		}
	}
	if g.Limit > 0 && earlier >= g.Limit {
		tr.wrong("limit %d passed: %v beside %d others", g.Limit, g, earlier)
	}
	if most > 0 && beside > most {
		tr.wrong("limit %d passed: %d at once with %v", most, beside, g)
	}
	if g.Left != driver.Unknown && (g.Left > g.TTL || g.Left < 0) {
		tr.wrong("granted for %v, told %v: %v", g.TTL, g.Left, g)
	}
}

// judgeRefusal checks that something can have been in the way.
func (tr *trial) judgeRefusal(e Event) {
	shared, self := 0, false
	inTheWay := false
	for _, h := range tr.holds {
		if !h.mayBlock(e.Called, e.Answered) {
			continue
		}
		self = self || h.Ref.LockID == e.Ref.LockID && h.mayLive(e.Called, e.Answered)
		if h.Mode == driver.Exclusive || e.Mode == driver.Exclusive || h.Ref.LockID == e.Ref.LockID || h.limitDiffers(e) {
			inTheWay = true
		} else {
			shared++
		}
	}
	for _, m := range tr.maybe {
		if m.Called.Order < e.Answered.Order {
			shared++
			self = self || m.Ref.LockID == e.Ref.LockID
			inTheWay = inTheWay || self || m.Mode == driver.Exclusive || e.Mode == driver.Exclusive || m.Limit != e.Limit
		}
	}
	if !inTheWay && !e.Behind && (e.Limit == 0 || shared < e.Limit) {
		tr.wrong("refused though nothing was in the way: %q of %q at %v, limit %d, %d shared holds",
			e.Ref.LockID, e.Ref.Resource, e.Called.Time, e.Limit, shared)
	}
	if e.BySelf && !self {
		tr.wrong("refused because of itself, which has no hold: %q of %q at %v", e.Ref.LockID, e.Ref.Resource, e.Called.Time)
	}
}

// judgeLoss checks that the hold was not certainly there.
func (tr *trial) judgeLoss(e Event) {
	for _, h := range tr.holds {
		there := h.Answered.Order < e.Called.Order && h.surelyLive(e.Answered) && !h.released(e.Answered)
		if there && matches(h.Ref, e.Ref) {
			tr.wrong("told lost at %v before its end %v: %v", e.Answered.Time, h.soonestEnd(e.Answered), h)
		}
	}
}

// judgeRenewal checks that the hold can have been there.
func (tr *trial) judgeRenewal(e Event) {
	for _, h := range tr.holds {
		if matches(h.Ref, e.Ref) && h.mayBeRenewed(e) {
			less := e.Left < h.soonestEnd(e.Answered)-e.Answered.Time
			if less && e.Left != driver.Unknown && e.Ref == h.Ref {
				tr.wrong("renewed at %v to less than it had, %v left: %v", e.Called.Time, e.Left, h)
			}
			return
		}
	}
	for _, m := range tr.maybe {
		if matches(m.Ref, driver.HoldRef{Resource: e.Ref.Resource, LockID: e.Ref.LockID, HoldID: e.Ref.HoldID}) {
			return
		}
	}
	tr.wrong("renewed at %v though it was gone: %+v", e.Called.Time, e.Ref)
}

// mayBeRenewed reports whether the hold can be live and not released. The renewal itself is
// no evidence.
func (h *logged) mayBeRenewed(e Event) bool {
	for _, r := range h.releases {
		if r.Outcome == Done && h.Answered.Order < r.Called.Order && r.Answered.Order < e.Called.Order {
			return false
		}
	}
	return h.mayLive(e.Called, e.Answered)
}

// judgeList checks that listed holds can exist and that holds that exist throughout are
// listed.
func judgeList(e Event, trials map[string]*trial) (wrongs []string) {
	wrong := func(format string, args ...any) { wrongs = append(wrongs, fmt.Sprintf(format, args...)) }
	shown := make(map[driver.HoldRef]bool)
	for _, s := range e.Holds {
		shown[s.Ref()] = true
		h, unsure := trials[s.Resource].named(s.Ref())
		switch {
		case h == nil && !unsure:
			wrong("listed at %v although it was never granted: %+v", e.Called.Time, s.Ref())
		case h == nil:
		case s.Live() && !h.mayLive(e.Called, e.Answered):
			wrong("listed at %v as live though it is gone: %v", e.Called.Time, h)
		case !e.Filter.Expired && !h.mayBlock(e.Called, e.Answered):
			wrong("listed at %v although it no longer blocks: %v", e.Called.Time, h)
		case s.Left == driver.Unknown:
		case s.Left < h.soonestEnd(e.Answered)-e.Answered.Time:
			wrong("listed at %v with %v left, less than it has: %v", e.Called.Time, s.Left, h)
		case s.Live() && h.latestEnd(e.Answered) != never && s.Left > h.latestEnd(e.Answered)-e.Called.Time:
			wrong("listed at %v with %v left, more than it has: %v", e.Called.Time, s.Left, h)
		}
	}
	if e.Outcome != Done || e.Filter != (driver.Filter{Resource: e.Filter.Resource, LockID: e.Filter.LockID, Expired: e.Filter.Expired}) {
		return wrongs
	}
	for resource, tr := range trials {
		if e.Filter.Resource != "" && e.Filter.Resource != resource {
			continue
		}
		for _, h := range tr.holds {
			if (e.Filter.LockID == "" || e.Filter.LockID == h.Ref.LockID) && h.Answered.Order < e.Called.Order &&
				h.surelyBlocks(e.Answered) && !shown[h.Ref] {
				wrong("not listed at %v though it was there: %v", e.Called.Time, h)
			}
		}
	}
	return wrongs
}

// named finds a hold by its ref. unsure says that an acquire without an answer may have made
// it.
func (tr *trial) named(ref driver.HoldRef) (_ *logged, unsure bool) {
	if tr == nil {
		return nil, false
	}
	for _, h := range tr.holds {
		if h.Ref == ref {
			return h, false
		}
	}
	for _, m := range tr.maybe {
		if m.Ref.LockID == ref.LockID && m.Ref.HoldID == ref.HoldID {
			return nil, true
		}
	}
	return nil, false
}
