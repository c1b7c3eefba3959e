package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Reason says what is in the way of the waiter i of a resource, by the rule of all stores. It
// is empty if nothing is. IDs that a server has left out are unknown: each is another one.
func Reason(holds []driver.Status, places []driver.Place, i int) string {
	holds, places = distinct(holds, places)
	p := places[i]
	q := driver.AcquireRequest{
		LockID: p.LockID, Mode: p.Mode, Limit: max(p.Limit, 0), OwnLimit: p.Limit < 0, Place: p.ID, Fair: p.Fair,
	}
	ahead := 0
	for _, other := range places[:i] {
		if other.Fair {
			ahead++
		}
	}
	holders := model.Refusal(model.RecordOf(holds, nil), 0, q)
	alone := model.Refusal(model.RecordOf(nil, places), 0, q) != nil
	if !alone && (holders != nil || model.Refusal(model.RecordOf(holds, places), 0, q) == nil) {
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

// distinct gives a lock ID and a place ID of its own to each hold and place that has none. No
// lock ID of a store is like these.
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
		if places[i].ID.IsZero() {
			places[i].ID = driver.NewPlaceID()
		}
	}
	return holds, places
}

// mostNamed is how many of a deadlock are named.
const mostNamed = 10

// Deadlock says who waits for whom. name names the holder of a hold. Of a long path it names
// the first ones, and says how many more there are.
func Deadlock(path []deadlock.Link, name func(driver.Status) string) string {
	var b strings.Builder
	for i, d := range path {
		switch {
		case i == mostNamed:
			fmt.Fprintf(&b, " … and %d more, the last of whom waits for the first.", len(path)-i)
			return b.String()
		case i == 0:
			fmt.Fprintf(&b, "%s holds \"%s\" and waits for \"%s\"", name(d.Holds), Printable(d.Holds.Resource), Printable(d.WaitsFor))
		case d.Holds.Resource == path[i-1].WaitsFor:
			fmt.Fprintf(&b, ", which %s holds, who waits for \"%s\"", name(d.Holds), Printable(d.WaitsFor))
		default:
			fmt.Fprintf(&b, ", where %s is ahead", name(d.Holds))
		}
	}
	b.WriteByte('.')
	return b.String()
}
