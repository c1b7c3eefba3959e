package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

// Shrink removes from a history whatever it does not need to fail: refused requests, and whole
// holds. It never removes a part of a hold, or a hold that may be the cause of a remaining
// refusal, because that could make a right history wrong.
func Shrink(events []history.Event, grace time.Duration, fails func([]history.Event) bool) []history.Event {
	if !fails(events) {
		return events
	}
	units := unitsOf(events, grace)
	for _, class := range []func(*unit) bool{(*unit).inert, func(*unit) bool { return true }} {
		for size := (len(units) + 1) / 2; size > 0; size /= 2 {
			for from := 0; from < len(units); {
				rest, left := without(units, from, size, class)
				if left && fails(together(rest)) {
					units = rest
				} else {
					from += size
				}
			}
		}
	}
	return together(units)
}

// unit is a part that is removed as a whole.
type unit struct {
	events []history.Event
	until  time.Duration // it may block until then
	holds  bool          // whether it may block at all
}

// inert reports whether no other unit can depend on this one.
func (u *unit) inert() bool { return !u.holds }

// unitsOf groups the events by hold.
func unitsOf(events []history.Event, grace time.Duration) (units []*unit) {
	byName := make(map[name]*unit)
	for _, e := range events {
		u := byName[nameOf(e)]
		if u == nil || e.HoldID == "" {
			u = &unit{}
			units = append(units, u)
		}
		if e.HoldID != "" {
			byName[nameOf(e)] = u
		}
		u.events = append(u.events, e)
		u.until = max(u.until, plus(plus(e.Answered, e.TTL), e.Delay+grace))
		u.holds = u.holds || e.Kind != history.Wait && e.Outcome != history.Held
	}
	return units
}

// without removes units of a class that are not needed, among the size units after from. It
// reports whether it removed any.
func without(units []*unit, from, size int, class func(*unit) bool) (rest []*unit, left bool) {
	for i, u := range units {
		if i >= from && i < from+size && class(u) && !u.needed(units) {
			left = true
		} else {
			rest = append(rest, u)
		}
	}
	return rest, left
}

// needed reports whether the unit may be the cause of a refusal.
func (u *unit) needed(units []*unit) bool {
	return u.holds && slices.ContainsFunc(units, func(other *unit) bool {
		return slices.ContainsFunc(other.events, func(e history.Event) bool {
			return other != u && e.Kind == history.Acquire && e.Outcome == history.Held && e.Resource == u.events[0].Resource &&
				e.Answered >= u.events[0].Called && e.Called <= u.until
		})
	})
}

func together(units []*unit) (events []history.Event) {
	for _, u := range units {
		events = append(events, u.events...)
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Called, b.Called) })
	return events
}
