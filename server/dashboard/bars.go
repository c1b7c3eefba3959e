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
	// maxLanes is how many holds at the same time are drawn. The style sheet has a height for
	// each number.
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
	ended := make(map[string]bool) // by its ref, which a later end has told more of
	begun := make(map[string]time.Time)
	for _, e := range events {
		if e.Kind.Begins() {
			begun[e.Ref] = e.At
		}
	}
	for _, e := range events {
		b := bar{to: e.At, class: "held"}
		switch {
		case ended[e.Ref]:
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
			at, known := begun[e.Ref]
			switch {
			case e.Held != driver.Unknown:
				b.from = e.At.Add(-e.Held)
			case known:
				b.from = at
			default:
				b.from = e.At // how long is not known
			}
		}
		ended[e.Ref] = true
		b.says = words.Printable(holderOf(e)) + ", " + heldTime(b.to.Sub(b.from)) + ", " + string(e.Kind)
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
