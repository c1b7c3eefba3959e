package dashboard

import (
	"fmt"
	"strconv"
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

// inSeconds says a duration without what is less than a second of it.
func inSeconds(d time.Duration) string {
	if d < time.Second {
		return "0 s"
	}
	return words.Duration(d.Truncate(time.Second))
}

// up is a duration that grows, and down one that shrinks, while the page is shown.
func up(d time.Duration) node {
	if d == driver.Unknown {
		return text("–")
	}
	return html.Time(html.Data("up", millis(d)), text(inSeconds(d)))
}

func down(d time.Duration) node {
	switch d {
	case driver.Unknown:
		return text("–")
	case driver.Forever:
		return text("never")
	}
	return html.Time(html.Data("down", millis(d)), text(inSeconds(d)))
}

// end is when a hold ends, unless it is renewed. A page that is not loaded again counts it
// down, and says then that it is over.
func end(d time.Duration) node {
	switch {
	case d == driver.Unknown, d == driver.Forever:
		return down(d)
	case d < time.Millisecond:
		return text(timeOver)
	}
	return html.Time(html.Data("down", millis(d)), html.Data("over", timeOver), text(inSeconds(d)))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// lengthText says how long something took that is over, in two digits at least, and rounded: a
// hold that ended by its TTL is shown so, whatever the clocks lack.
func lengthText(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d < 100*time.Microsecond:
		return "under 0.1 ms"
	case d < 9950*time.Microsecond: // what is rounded up to 10 ms is written so
		return fmt.Sprintf("%.1f ms", ms)
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%.0f ms", ms)
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return words.Duration(d.Round(time.Second))
}

const timeOver = "its time is over"

// length is a duration that stays as it is.
func length(says string) node { return gomponents.El("bdi", class("length"), text(says)) }

// isolated keeps marks that turn the direction of writing from what stands beside the text.
func isolated(s string) node { return gomponents.El("bdi", text(s)) }

// resourceLink is the name of a resource, which leads to its page.
func resourceLink(name string) node {
	return html.A(class("resource"), html.Href(link(name)), isolated(words.Printable(name)))
}

// badge says how much something hurts.
func badge(l level) node {
	says := [...]string{"fine", "watch", "trouble", "stuck"}[l]
	return html.Span(class("badge "+l.String()), text(says))
}

// fact is a term and what it is.
func fact(term string, is ...node) node { return html.Div(html.Dt(text(term)), html.Dd(is...)) }

// table is a table that scrolls by itself where the window is narrow.
func table(label string, titles []string, rows node) node {
	return html.Div(class("scroll"), html.TabIndex("0"), html.Role("region"), html.Aria("label", label),
		html.Table(
			html.THead(html.Tr(each(titles, func(title string) node { return html.Th(html.Scope("col"), text(title)) }))),
			html.TBody(rows),
		),
	)
}

// stacked is a table of cells that becomes a list where the window is narrow.
func stacked(label string, titles []string, rows node) node {
	return html.Div(class("stack"), table(label, titles, rows))
}

// more says that not all is shown.
func more(n int, says string) node {
	return when(n > 0, func() node { return html.P(class("more"), text(strconv.Itoa(n)+" "+says)) })
}

// title is a heading with what is below it.
func section(id string, heading node, rest ...node) node {
	return html.Section(html.Aria("labelledby", id), html.H2(html.ID(id), heading), group(rest...))
}

// empty says why there is nothing.
func empty(is ...node) node { return html.P(class("empty"), group(is...)) }

// cell is a cell of a stacked table. In the list it says itself what it is, and nothing if the
// label is empty.
func cell(label string, is ...node) node { return html.Td(html.Data("label", label), group(is...)) }

// wide is a cell that has a line of its own in the list.
func wide(label string, is ...node) node {
	return html.Td(class("wide"), html.Data("label", label), group(is...))
}
