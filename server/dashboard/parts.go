package dashboard

import (
	"net/url"
	"strconv"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/server/words"
)

// up is a duration that grows, and down one that shrinks, while the page is shown.
func up(s span) node {
	if !s.Known {
		return text("–")
	}
	return html.Time(html.Data("up", strconv.FormatInt(s.Ms, 10)), text(s.text()))
}

func down(s span) node {
	switch {
	case !s.Known:
		return text("–")
	case s.Forever:
		return text("never")
	}
	return html.Time(html.Data("down", strconv.FormatInt(s.Ms, 10)), text(s.text()))
}

// end is when a hold ends, unless it is renewed. A page that is not loaded again counts it
// down, and says then that it is over.
func end(s span) node {
	switch {
	case !s.Known || s.Forever:
		return down(s)
	case s.Ms == 0:
		return text(timeOver)
	}
	return html.Time(html.Data("down", strconv.FormatInt(s.Ms, 10)), html.Data("over", timeOver), text(s.text()))
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

// article shows a hold with all that the caller may see of it.
func (h holdView) article() node {
	renewed := "Granted"
	if h.Renewed {
		renewed = "Renewed"
		if h.Old {
			renewed = "Seen renewed"
		}
	}
	return html.Article(class("hold"), html.ID(h.Ref), html.Data("key", h.Ref),
		html.H3(isolated(h.Who), text(" "), html.Span(class("pulse "+h.Pulse), text(h.Pulse))),
		html.P(text(h.Says), when(h.Comment != "", func() node { return group(text(" “"), isolated(h.Comment), text("”")) })),
		html.Dl(class("facts"),
			fact("Holds it", text(h.Mode)),
			fact("For", up(h.Age)),
			fact(renewed, up(h.Silent), when(h.Silent.Known, func() node { return text(" ago") })),
			fact("Ends in", end(h.Left)),
			when(h.Takeover != "", func() node { return fact("Then keeps others out for", text(h.Takeover)) }),
			when(h.Token != "", func() node { return fact("Token", html.Span(class("number"), text(h.Token))) }),
			when(h.Ref != "", func() node {
				return fact("For a ticket", html.A(html.Href(link(h.Resource)+"#"+h.Ref), text(h.Ref)))
			}),
		),
		when(!h.Force && (h.Pulse == "endless" || h.Pulse == "silent" || h.Pulse == "quiet"), func() node {
			return html.P(text("If its holder is gone, somebody with the right to force can end it: "),
				html.Code(text("holdfast unlock --force "+words.Argument(h.Resource))), text(" shows what it would release, and asks."))
		}),
		html.Div(class("links"),
			html.A(html.Href(programLink(h.Program)), text("All that this program holds and waits for")),
			when(h.Force && h.Ref != "", func() node {
				return html.Button(html.Type("button"), class("danger"), html.Data("force", ""), html.Data("resource", url.PathEscape(h.Resource)),
					html.Data("ref", h.Ref), html.Data("token", h.Token), html.Data("who", h.Who), html.Data("name", words.Printable(h.Resource)), gomponents.Attr("hidden"),
					text("Release by force…"))
			}),
		),
	)
}

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
