package top

import (
	"slices"
	"strconv"
	"time"
)

// columnGap is the space between two columns.
const columnGap = 2

// The columns whose width depends on what is in them.
const (
	resourceColumn = iota
	ownerColumn
	hostColumn
	commentColumn
	columns
)

// column is a column of a board.
type column struct {
	title string
	text  func(b *board, r row, now time.Time) string
	// width is what it needs, or for a varying column the least that it gets, unless
	// it needs less.
	width  int
	varies bool
	name   int // which of the varying columns
	// rank is the order in which columns are left out if there is too little room:
	// the highest first.
	rank int
	// spare: it is left out if others have less than enough.
	spare bool
}

// enough is the width for which other columns have to give way.
const enough = 30

func fixed(title string, width, rank int, text func(b *board, r row, now time.Time) string) column {
	return column{title: title, width: width, rank: rank, text: text}
}

func varying(title string, name, least, rank int) column {
	return column{title: title, width: least, varies: true, name: name, rank: rank,
		text: func(_ *board, r row, _ time.Time) string { return r.names()[name] }}
}

func boardColumns() []column {
	token := fixed("TOKEN", 16, 0, func(_ *board, r row, _ time.Time) string {
		if r.hold == nil {
			return "-"
		}
		return strconv.FormatUint(r.hold.Token, 10)
	})
	token.spare = true
	return []column{
		varying("RESOURCE", resourceColumn, 12, 0),
		fixed("LEFT", 10, 0, func(b *board, r row, now time.Time) string {
			if r.hold == nil {
				return "-"
			}
			return b.leftOf(r.hold, now)
		}),
		varying("OWNER", ownerColumn, 8, 1),
		varying("HOST", hostColumn, 8, 6),
		fixed("MODE", 9, 5, func(_ *board, r row, _ time.Time) string { return r.mode().String() }),
		fixed("SINCE", 12, 2, func(_ *board, r row, _ time.Time) string { return clockTime(r.since()) }),
		fixed("QUEUE", 12, 3, func(b *board, r row, now time.Time) string { return b.queueOf(r, now) }),
		token,
		varying("COMMENT", commentColumn, 10, 4),
	}
}

// fit returns the columns that the width has room for, with their widths.
func (b *board) fit(width int) []column {
	all := boardColumns()
	need := make([]int, columns) // of the varying columns
	comfortable := -columnGap    // the width at which nothing is missing
	for i := range all {
		c := &all[i]
		comfortable += columnGap + c.width
		if c.varies {
			need[c.name] = max(b.widths[c.name], len(c.title))
			comfortable += min(need[c.name], enough) - c.width
			c.width = min(c.width, need[c.name])
		}
	}
	if comfortable > width {
		all = slices.DeleteFunc(all, func(c column) bool { return c.spare })
	}
	room := func() int {
		room := width + columnGap
		for _, c := range all {
			room -= c.width + columnGap
		}
		return room
	}
	for room() < 0 && len(all) > 1 {
		last := slices.MaxFunc(all, func(x, y column) int { return x.rank - y.rank })
		all = slices.DeleteFunc(all, func(c column) bool { return c.rank > 0 && c.rank == last.rank })
		if last.rank == 0 {
			break // the rest is cut off
		}
	}
	// The room that is left goes to the narrowest that need more.
	for left := room(); left > 0; left-- {
		narrowest := -1
		for i, c := range all {
			if c.varies && c.width < need[c.name] && (narrowest < 0 || c.width < all[narrowest].width) {
				narrowest = i
			}
		}
		if narrowest < 0 {
			break
		}
		all[narrowest].width++
	}
	return all
}
