package top

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/gdamore/tcell/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

const (
	aboveRows   = 3  // title, message, names of the columns
	detailLines = 9  // with the rule above them
	detailed    = 19 // lines that a screen has at least if it shows details
)

// draw fills the screen.
func (b *board) draw(s tcell.Screen, now time.Time) {
	s.Clear()
	s.HideCursor()
	width, height := s.Size()
	screen.Line(s, 0, b.title(), screen.Strong)
	screen.Line(s, 1, words.Printable(secret.Redact(b.trouble)), screen.Alarming)
	b.page = height - aboveRows - 1 // without the help
	if height >= detailed {
		b.page -= detailLines
	}
	b.page = max(b.page, 1)
	// The cursor stays on the screen, and no room is left empty.
	b.scroll = max(0, min(b.scroll, b.cursor, len(b.rows)-b.page))
	b.scroll = max(b.scroll, b.cursor-b.page+1)
	b.drawRows(s, width, now)
	if selected := b.selected(); selected != (row{}) && height >= detailed {
		b.drawDetails(s, height-1-detailLines, selected, now)
	}
	b.drawHelp(s, height-1)
	s.Show()
}

// title describes what is shown.
func (b *board) title() string {
	var t strings.Builder
	fmt.Fprintf(&t, "holdfast top  %s", words.Printable(b.where.Name()))
	if b.last.Begun.IsZero() {
		return t.String()
	}
	waiters := ""
	if n := b.last.Queues.Len(); n > 0 {
		waiters = fmt.Sprintf(", waiters: %d", n)
	}
	switch n := len(b.last.Holds); {
	case b.filter != "" && waiters != "":
		fmt.Fprintf(&t, "  %d of %d holds and waiters, with %s", len(b.rows), n+b.last.Queues.Len(), words.Printable(strconv.Quote(b.filter)))
	case b.filter != "":
		fmt.Fprintf(&t, "  %d of %d holds, with %s", len(b.rows), n, words.Printable(strconv.Quote(b.filter)))
	case n == 0:
		t.WriteString("  nothing is held" + waiters)
	default:
		fmt.Fprintf(&t, "  holds: %d%s", n, waiters)
	}
	fmt.Fprintf(&t, ", by %v  %s, every %v", b.order, b.last.Begun.Format(time.TimeOnly), rounded(b.last.Pause))
	if b.last.Pause > b.interval {
		fmt.Fprintf(&t, " since a look takes %v", rounded(b.last.Took))
	}
	return t.String()
}

// rounded leaves two or three digits.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

func (b *board) drawRows(s tcell.Screen, width int, now time.Time) {
	var rows [][]string
	for i := b.scroll; i < min(b.scroll+b.page, len(b.rows)); i++ {
		cells := b.cells(b.rows[i], now)
		for j, text := range cells {
			cells[j] = words.Printable(text)
		}
		rows = append(rows, cells)
	}
	if y := b.cursor - b.scroll; y < len(rows) {
		s.FillArea(0, aboveRows+y, width, 1, ' ', screen.Marked)
	}
	x := 0
	for _, c := range fit(width, rows) {
		screen.Text(s, x, aboveRows-1, c.width, c.title, tcell.StyleDefault.Underline(true))
		for i, cells := range rows {
			style := tcell.StyleDefault
			if b.scroll+i == b.cursor {
				style = screen.Marked
			}
			screen.Text(s, x, aboveRows+i, c.width, cells[c.cell], style)
		}
		x += c.width + columnGap
	}
}

// drawDetails draws all fields of a hold or a waiter, from line y on.
func (b *board) drawDetails(s tcell.Screen, y int, r row, now time.Time) {
	width, _ := s.Size()
	screen.Line(s, y, strings.Repeat("─", width), tcell.StyleDefault)
	var lines [detailLines - 1]string
	if r.hold != nil {
		lines = b.details(r.hold, now)
	} else {
		lines = b.detailsOfPlace(r.place, now)
	}
	for i, line := range lines {
		screen.Line(s, y+1+i, words.Printable(line), tcell.StyleDefault)
	}
}

func (b *board) detailsOfPlace(w *output.Waiting, now time.Time) [detailLines - 1]string {
	n := len(b.last.Queues[w.Resource])
	order := fmt.Sprintf("behind %d of %d, whoever comes may get it before", w.Before, n)
	if w.Fair {
		order = fmt.Sprintf("position %d of %d, nobody who comes later gets it before", w.Position(), n)
	}
	passed := max(now.Sub(b.last.Begun), 0)
	return [detailLines - 1]string{
		fmt.Sprintf("%s  %s, %s", w.Resource, modeOf(w.Mode, w.Limit), order),
		"lock ID " + cmp.Or(w.LockID, "-"), // a server may leave it out
		fmt.Sprintf("waits since %s, for %s; asked %s ago, its place ends in %s unless it asks again",
			w.Since.Local().Format(time.DateTime), b.on(w.Age(), now), b.on(w.AskedAgo(), now), output.Left(max(w.Left-passed, 0).Truncate(time.Second))),
		fmt.Sprintf("owner %s  host %s", cmp.Or(w.Owner, "-"), cmp.Or(w.Host, "-")),
		"to see why it waits: holdfast explain" + b.where.Flag() + " " + words.Argument(w.Resource),
	}
}

// forced returns the command unlock --force with these flags, if any, and its second line if it
// needs one. They are drawn on lines of their own, to be copied.
func (b *board) forced(target, resource string) (command, rest string) {
	command, target = "holdfast unlock --force", strings.TrimLeft(target+" "+words.Argument(resource), " ")
	if flag := b.where.Flag(); flag != "" {
		return command + flag + ` \`, "  " + target
	}
	return command + " " + target, ""
}

// on returns an age of the last sight, counted on until now by this machine's clock.
func (b *board) on(age time.Duration, now time.Time) string {
	if age != driver.Unknown {
		age = (age + max(now.Sub(b.last.Begun), 0)).Truncate(time.Second)
	}
	return output.Left(age)
}

func (b *board) details(hold *holdfast.Status, now time.Time) [detailLines - 1]string {
	at := func(t time.Time, age time.Duration, text string) string {
		if age == driver.Unknown {
			return t.Local().Format(time.DateTime) + output.ByAnother
		}
		return t.Local().Format(time.DateTime) + ", " + fmt.Sprintf(text, b.on(age, now))
	}
	renewed := "never renewed"
	if !hold.Renewed.IsZero() {
		renewed = "renewed " + at(hold.Renewed, hold.RenewedAgo(), "%s ago")
	}
	left := fmt.Sprintf("left %s, then takeover delay %v", b.leftOf(hold, now), hold.TakeoverDelay)
	switch {
	case output.InTakeoverDelay(*hold):
		left = fmt.Sprintf("ended without a release, keeps others out for its takeover delay of %v", hold.TakeoverDelay)
	case hold.Released:
		left = fmt.Sprintf("released, ends in %s after --at-least", b.leftOf(hold, now))
	case hold.Left == holdfast.Forever:
		left = "no end: only a release ends it"
	}
	ids, hint := fmt.Sprintf("lock ID %s  hold ID %s", hold.LockID, cmp.Or(hold.HoldID.String(), "-")), "to release it by force:"
	only := "--hold " + hold.HoldID.String()
	if hold.HoldID.IsZero() { // of an old program
		only = ""
	}
	unlock, target := b.forced(only, hold.Resource)
	if hold.LockID == "" { // the server leaves both out
		ids, hint, unlock, target = "lock ID -  hold ID -", "who may force can release it, and sees its hold ID", "", ""
	}
	return [...]string{
		fmt.Sprintf("%s  %s, token %d", hold.Resource, modeOf(hold.Mode, hold.Limit), hold.Token),
		ids,
		fmt.Sprintf("held since %s; %s", at(hold.Created, hold.Age(), "for %s"), renewed),
		left,
		fmt.Sprintf("owner %s  host %s  %s", cmp.Or(hold.Owner, "-"), cmp.Or(hold.Host, "-"), hold.Comment),
		hint,
		unlock,
		target,
	}
}

func (b *board) drawHelp(s tcell.Screen, y int) {
	if b.typing {
		text := "/" + words.Printable(b.filter)
		screen.Line(s, y, text+"   (enter: done, escape: show all)", tcell.StyleDefault)
		s.ShowCursor(displaywidth.String(text), y)
		return
	}
	screen.Line(s, y, "arrows, pages: choose   /: filter   escape: show all   s: sort   r: look now   q: quit", tcell.StyleDefault)
}

// leftOf returns the time that the hold has left now, unless it was renewed
// since the last look.
func (b *board) leftOf(hold *holdfast.Status, now time.Time) string {
	d := hold.Left
	if d != holdfast.Forever && d != driver.Unknown {
		d = max(0, d-now.Sub(b.last.Begun)).Truncate(time.Second)
	}
	return output.Left(d)
}

// clockTime returns a time, as short as is still clear when the same clock has reached seen.
func clockTime(t, seen time.Time) string {
	t, seen = t.Local(), seen.Local()
	switch {
	case t.IsZero():
		return "-"
	case seen.IsZero(): // t is of another clock
		return "?"
	case t.Format(time.DateOnly) == seen.Format(time.DateOnly):
		return t.Format(time.TimeOnly)
	case t.Year() == seen.Year():
		return t.Format("Jan _2 15:04")
	}
	return t.Format(time.DateOnly)
}

// modeOf returns a mode, with its limit if it has one.
func modeOf(mode holdfast.Mode, limit int) string {
	if mode == holdfast.Shared && limit > 0 {
		return fmt.Sprintf("%v with limit %d", mode, limit)
	}
	return mode.String()
}
