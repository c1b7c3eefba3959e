package dashboard

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/words"
)

const (
	timelineWidth = 1000
	laneHeight    = 20
	// maxLanes is how many holds at the same time are drawn.
	maxLanes = 6
)

// bar is a hold in a time line.
type bar struct {
	from, to time.Time
	lane     int
	class    string // held, now or loss
	says     string
}

// barsOf returns the holds of which events tell, the oldest first, and when the oldest event
// was. The events are those of one resource, the newest first.
func barsOf(events []history.Event, now time.Time) (bars []bar, from time.Time) {
	oldest := events[len(events)-1]
	from = oldest.At
	type hold struct { // a hold ID may have several, one after the other
		ref   string
		token uint64
	}
	ended := make(map[hold]bool) // a later end has told more of it
	begun := make(map[hold]time.Time)
	for _, e := range events {
		if e.Kind.Begins() {
			begun[hold{e.Ref, e.Token}] = e.At
		}
	}
	for _, e := range events {
		b := bar{to: e.At, class: "held"}
		switch {
		case ended[hold{e.Ref, e.Token}]:
			continue
		case e.Kind.Begins():
			b.to, b.class = now, "now"
			b.from = e.At
			if e.Kind == history.Seen && e.Held > 0 {
				b.from = e.At.Add(-e.Held)
			}
		default:
			if e.Kind.Loss() {
				b.class = "loss"
			}
			at, known := begun[hold{e.Ref, e.Token}]
			switch {
			case e.Held != driver.Unknown:
				b.from = e.At.Add(-e.Held)
			case known:
				b.from = at
			default:
				b.from = e.At // how long is not known
			}
		}
		ended[hold{e.Ref, e.Token}] = true
		b.says = words.Printable(holderOf(e)) + ", " + lengthText(b.to.Sub(b.from)) + ", " + string(e.Kind)
		bars = append(bars, b)
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return a.from.Compare(b.from) })
	var free []time.Time // from when each lane is
	for i := range bars {
		lane := slices.IndexFunc(free, func(at time.Time) bool { return !bars[i].from.Before(at) })
		if lane < 0 {
			lane = len(free)
			free = append(free, time.Time{})
		}
		bars[i].lane, free[lane] = lane, bars[i].to
	}
	return bars, from
}
