package linear

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// kept is what may have done something though it has no answer.
type kept struct {
	renewals bool
	// Of the acquires and releases of a hold, none of which has an answer, the first:
	// waiters are acquires with a place in the queue, first all others.
	waiters, first bool
}

// simplified is one way in which events can have come about, with less to look for: an
// order of its requests is one of all of them. Acquires and releases that were repeated
// until there was an answer are one that was decided sometime meanwhile; what else has
// no answer did nothing, but for what is kept.
func simplified(events []drivertest.Event, keep kept) (rest []drivertest.Event) {
	type request struct {
		op drivertest.Op
		id driver.HoldID
	}
	unanswered := make(map[request]drivertest.Event) // the first
	for _, e := range inOrder(events) {
		r := request{e.Op, e.Ref.HoldID}
		first, repeated := unanswered[r]
		switch {
		case e.Op == drivertest.Renew && (keep.renewals || e.Outcome != drivertest.Unknown),
			e.Op != drivertest.Renew && e.Outcome != drivertest.Unknown && !repeated:
			rest = append(rest, e)
		case e.Op != drivertest.Renew && e.Outcome == drivertest.Done:
			delete(unanswered, r)
			e.Called = first.Called
			rest = append(rest, e)
		case e.Outcome != drivertest.Unknown: // a refusal says nothing of the attempts before
			rest = append(rest, e)
		case e.Op != drivertest.Renew && !repeated:
			unanswered[r] = e
		}
	}
	for _, e := range unanswered {
		if waits := e.Op == drivertest.Acquire && !e.Place.IsZero(); waits && keep.waiters || !waits && keep.first {
			rest = append(rest, e)
		}
	}
	return rest
}

func inOrder(events []drivertest.Event) []drivertest.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b drivertest.Event) int { return cmp.Compare(a.Called.Order, b.Called.Order) })
}
