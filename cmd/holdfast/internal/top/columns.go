package top

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// row is a hold or a waiter.
type row struct {
	hold  *holdfast.Status
	place *output.Waiting
}

// is reports whether the other row is of the same hold or waiter, perhaps in a later
// sight.
func (r row) is(other row) bool {
	switch {
	case r.hold != nil:
		return other.hold != nil && r.hold.Ref() == other.hold.Ref()
	case r.place != nil:
		return other.place != nil && r.place.Resource == other.place.Resource && r.place.LockID == other.place.LockID &&
			r.place.Owner == other.place.Owner && r.place.Host == other.place.Host && r.place.Since.Equal(other.place.Since)
	}
	return false
}

// has reports whether a name or the comment contains the lower-case text.
func (r row) has(wanted string) bool {
	var texts []string
	if p := r.place; p != nil {
		texts = []string{p.LockID, output.PlaceName(*p), p.Owner, p.Host, p.Mode.String(), output.Order(p.Place)}
	} else {
		texts = []string{r.hold.LockID, r.hold.Resource, r.hold.Owner, r.hold.Host, r.hold.Mode.String(), r.hold.Comment}
	}
	return strings.Contains(strings.ToLower(strings.Join(texts, "\n")), wanted)
}

// cells returns the texts of the columns.
func (b *board) cells(r row, now time.Time) []string {
	if p := r.place; p != nil {
		return []string{output.PlaceName(*p), "-", p.Owner, p.Host, p.Mode.String(), clockTime(p.Since, p.Seen),
			"for " + b.on(p.Age(), now), "-", output.Order(p.Place)}
	}
	s, queue := r.hold, "-"
	if n := len(b.last.Queues[s.Resource]); n > 0 {
		queue = output.Wait(n)
	}
	return []string{s.Resource, b.leftOf(s, now), s.Owner, s.Host, s.Mode.String(), clockTime(s.Created, s.Seen),
		queue, strconv.FormatUint(s.Token, 10), output.Comment(*s)}
}

// columnGap is the space between two columns.
const columnGap = 2

// column is a column of a board.
type column struct {
	title string
	least int // the width that it has at least
	rank  int // the highest is left out first if there is too little room; 0: never
	cell  int
	width int
}

// columns are those of all boards, as cells returns their texts.
var columns = []column{
	{title: "RESOURCE", least: 12},
	{title: "LEFT", least: 10},
	{title: "OWNER", least: 8, rank: 1},
	{title: "HOST", least: 8, rank: 6},
	{title: "MODE", least: 9, rank: 5},
	{title: "SINCE", least: 12, rank: 2},
	{title: "QUEUE", least: 12, rank: 3},
	{title: "TOKEN", least: 16, rank: 7},
	{title: "COMMENT", least: 10, rank: 4},
}

// fit returns the columns that the width has room for, as wide as the rows need or, if that is
// too much, with less for the widest.
func fit(width int, rows [][]string) []column {
	fitted := slices.Clone(columns)
	room := width + columnGap
	for i := range fitted {
		c := &fitted[i]
		c.cell, c.width = i, c.least
		for _, cells := range rows {
			c.width = max(c.width, displaywidth.String(cells[i]))
		}
		room -= c.width + columnGap
	}
	for room < 0 {
		widest, last := 0, 0
		for i, c := range fitted {
			if w := fitted[widest]; c.width-c.least > w.width-w.least {
				widest = i
			}
			if c.rank > fitted[last].rank {
				last = i
			}
		}
		switch c := &fitted[widest]; {
		case c.width > c.least:
			c.width--
			room++
		case fitted[last].rank > 0:
			room += fitted[last].width + columnGap
			fitted = slices.Delete(fitted, last, last+1)
		default:
			return fitted // the rest is cut off
		}
	}
	return fitted
}
