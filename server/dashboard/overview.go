package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/words"
)

const (
	// maxRows is how many rows a page has at most.
	maxRows = 200
	// maxTroubles is how many troubles are explained at a time.
	maxTroubles = 12
)

type filter struct{ Name, Says string }

var filters = []filter{
	{"", "all"}, {"waited", "somebody waits"}, {"trouble", "in trouble"}, {"endless", "without an end"},
}

func (f filter) chooses(e *entry) bool {
	switch f.Name {
	case "waited":
		return len(e.Waiters) > 0
	case "trouble":
		return e.Trouble.Level > fine
	case "endless":
		return slices.ContainsFunc(e.Holds, func(h driver.Status) bool { return h.Left == driver.Forever })
	}
	return true
}

// overview serves the first page.
func (d *Dashboard) overview(v *visit) {
	s, ok := v.look()
	if !ok {
		return
	}
	query := v.r.URL.Query()
	search, only := query.Get("q"), filters[0]
	if i := slices.IndexFunc(filters, func(f filter) bool { return f.Name == query.Get("only") }); i >= 0 {
		only = filters[i]
	}
	var troubled, matching []*entry
	var longest time.Duration
	worst, holds, waiters := fine, 0, 0
	for _, e := range d.boardOf(s).entries {
		if !v.looks(e.Resource) {
			continue
		}
		holds += len(e.Holds)
		waiters += len(e.Waiters)
		longest, worst = max(longest, e.Waited), max(worst, e.Trouble.Level)
		if e.Trouble.Level > fine {
			troubled = append(troubled, e)
		}
		if (strings.Contains(e.Resource, search) || e.names(search)) && only.chooses(e) {
			matching = append(matching, e)
		}
	}
	if v.old {
		worst = max(worst, watch)
	} else {
		longest += v.age
	}
	says, look := summary(len(troubled), holds, waiters, longest, s.Queue, v.old), worst.String()
	if v.seesPart() {
		says = "Of what you may look at, " + strings.ToLower(says[:1]) + says[1:]
		if worst == fine && holds+waiters == 0 {
			look = "part" // not as if all were well
		}
	}
	v.show(http.StatusOK, "Locks", s,
		html.H1(class("summary "+look), text(says)), v.seen(s), v.first(troubled), v.lost(), v.table(matching, search, only),
	)
}

// first is what needs a look first.
func (v *visit) first(troubled []*entry) node {
	if len(troubled) == 0 {
		return group()
	}
	return section("trouble", text("Look at this first"),
		html.Ul(class("troubles"), each(troubled[:min(len(troubled), maxTroubles)], v.card)),
		when(len(troubled) > maxTroubles, func() node {
			return html.P(text(strconv.Itoa(len(troubled)-maxTroubles)+" more are in trouble: "), html.A(html.Href("?only=trouble"), text("all of them")), text("."))
		}),
	)
}

// card says what is wrong with a resource, who holds it and who waits longest.
func (v *visit) card(e *entry) node {
	return html.Li(class("trouble "+e.Trouble.Level.String()), html.Data("key", "t-"+url.PathEscape(e.Resource)),
		html.H3(badge(e.Trouble.Level), text(" "), resourceLink(e.Resource), text(": "+e.Trouble.Says+".")),
		each(e.Holds[:min(len(e.Holds), 3)], v.line),
		when(len(e.Waiters) > 0, func() node {
			count, has := "", " has waited for "
			if n := len(e.Waiters); n > 1 {
				count, has = strconv.Itoa(n)+" wait. ", " has waited longest, for "
			}
			i := oldest(e.Waiters)
			p := e.Waiters[i]
			return html.P(text(count), html.B(isolated(words.Printable(words.Waiter(p)))), text(has), up(v.grows(p.Age())), text(": "+e.reason(i)+"."))
		}),
	)
}

// nothing says why the table of all has no rows.
func (v *visit) nothing() string {
	what := "Nothing"
	if v.seesPart() {
		what = "Nothing that you may look at"
	}
	if v.old {
		return what + " was held when the store was seen last."
	}
	return what + " is held."
}

func (v *visit) table(matching []*entry, search string, only filter) node {
	shown := matching[:min(len(matching), maxRows)]
	rows := stacked("Resources", []string{"Resource", "Held by", "For", "Ends in", "Waiting", "Longest wait"}, each(shown, v.row))
	switch {
	case len(shown) > 0:
	case search != "" || only.Name != "":
		rows = empty(text("Nothing matches. "), html.A(html.Href("./"), text("Show all")))
	default:
		rows = empty(text(v.nothing()))
	}
	return section("all", text("What is held"),
		html.Form(class("filters"), html.Method("get"), html.Action("./"), html.Role("search"),
			html.Label(text("Search "), html.Input(html.Type("search"), html.Name("q"), html.Value(search),
				html.Placeholder("resource, owner, host, ref"), html.AutoComplete("off"))),
			html.Label(text("Show "), html.Select(html.Name("only"), each(filters, func(f filter) node {
				return html.Option(html.Value(f.Name), gomponents.If(f == only, html.Selected()), text(f.Says))
			}))),
			html.Button(html.Type("submit"), text("Show")),
		),
		rows,
		when(len(matching) > len(shown), func() node {
			return html.P(class("more"), text(fmt.Sprintf("These are the first %d of %d: search to see the others.", len(shown), len(matching))))
		}),
	)
}

// row is a resource in the table.
func (v *visit) row(e *entry) node {
	level, holder, since, left, waited := e.Trouble.Level, html.I(text("free")), driver.Unknown, driver.Unknown, driver.Unknown
	if len(e.Holds) > 0 {
		h := e.Holds[0]
		holder, since, left = isolated(words.Printable(words.Holder(h))), v.grows(h.Age()), v.shrinks(h.Left)
		if v.over(h) {
			level = max(level, watch)
		}
	}
	if len(e.Waiters) > 0 {
		waited = v.grows(e.Waited)
	}
	return html.Tr(html.Data("key", "r-"+url.PathEscape(e.Resource)),
		html.Th(html.Scope("row"), when(level > fine, func() node { return group(badge(level), text(" ")) }), resourceLink(e.Resource)),
		wide("Held by", holder, when(len(e.Holds) > 1, func() node { return text(fmt.Sprintf(" and %d more", len(e.Holds)-1)) })),
		cell("For", up(since)), cell("Ends in", end(left)), cell("Waiting", html.Span(class("number"), text(strconv.Itoa(len(e.Waiters))))), cell("Longest wait", up(waited)),
	)
}

// refLength is that of a ref: a hold is found by all of it.
const refLength = 8

// names reports whether the text is in what a holder or a waiter is called.
func (e *entry) names(part string) bool {
	return slices.ContainsFunc(e.Holds, func(h driver.Status) bool {
		return strings.Contains(h.Owner, part) || strings.Contains(h.Host, part) || strings.Contains(h.Comment, part) ||
			len(part) == refLength && wire.RefOf(h.HoldID) == part
	}) || slices.ContainsFunc(e.Waiters, func(p driver.Place) bool {
		return strings.Contains(p.Owner, part) || strings.Contains(p.Host, part)
	})
}

// summary says how it is or, if the look is old, how it was.
func summary(troubled, holds, waiters int, longest time.Duration, queue, old bool) string {
	var says string
	switch {
	case troubled > 0:
		says = words.Count(troubled, "resource needs", "resources need") + " a look. "
	case old:
	case holds+waiters == 0:
		if !queue {
			return "Nothing is held."
		}
		return "Nothing is held, and nobody waits."
	default:
		says = "Nothing is stuck. "
	}
	if old {
		says = "Nobody knows what is held now. When it was seen last: " + says
	}
	says += words.Count(holds, "hold", "holds") + "; "
	if !queue {
		return says + "the store does not know who waits."
	}
	if waiters == 0 {
		return says + "nobody waits."
	}
	return says + words.Count(waiters, "waits", "wait") + fmt.Sprintf(", the longest for %s.", words.Duration(longest.Truncate(time.Second)))
}

// oldest returns which of the waiters has waited longest.
func oldest(waiters []driver.Place) int {
	i := 0
	for j, p := range waiters {
		if p.Age() > waiters[i].Age() {
			i = j
		}
	}
	return i
}
