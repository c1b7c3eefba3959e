package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Reason says what is in the way of the waiter i of a resource, by the rule of all stores. It
// is empty if nothing is. Lock IDs that a server has left out are unknown: each is another one.
// So is a limit, which then differs from none.
func Reason(holds []driver.Status, places []driver.Place, i int) string {
	holds, places = distinct(holds, places[:i+1])
	p, before := places[i], places[:i]
	// A place that none of those before has: they may have none that is known.
	q := driver.AcquireRequest{LockID: p.LockID, Mode: p.Mode, Limit: p.Limit, Place: driver.NewPlaceID(), Fair: p.Fair}
	if p.Limit == driver.LimitUnknown {
		q.Limit = 0
		for i := range holds {
			holds[i].Limit = driver.LimitUnknown
		}
		for i := range before {
			before[i].Limit = driver.LimitUnknown
		}
	}
	ahead := 0
	for _, other := range before {
		if other.Fair {
			ahead++
		}
	}
	holders := model.Refusal(model.RecordOf(holds, nil), 0, q)
	alone := model.Refusal(model.RecordOf(nil, before), 0, q) != nil
	if !alone && (holders != nil || model.Refusal(model.RecordOf(holds, before), 0, q) == nil) {
		ahead = 0 // they leave room for it
	}
	var why []string
	switch {
	case holders == nil:
	case holders.LimitDiffers:
		why = append(why, "the lock is held with another limit")
	case len(holds) == 1:
		why = append(why, "the holder is in its way")
	default:
		why = append(why, fmt.Sprintf("the %d holders are in its way", len(holds)))
	}
	switch ahead {
	case 0:
	case 1:
		why = append(why, "1 is served before")
	default:
		why = append(why, fmt.Sprintf("%d are served before", ahead))
	}
	return strings.Join(why, ", and ")
}

// distinct gives a lock ID of its own to each hold and place that has none. No lock ID of a
// store is like these.
func distinct(holds []driver.Status, places []driver.Place) ([]driver.Status, []driver.Place) {
	holds, places = slices.Clone(holds), slices.Clone(places)
	for i := range holds {
		if holds[i].LockID == "" {
			holds[i].LockID = fmt.Sprint("\x00hold", i)
		}
	}
	for i := range places {
		if places[i].LockID == "" {
			places[i].LockID = fmt.Sprint("\x00place", i)
		}
	}
	return holds, places
}
