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

// overviewBody is what the first page shows.
type overviewBody struct {
	Summary  string
	Level    level // of the worst
	Troubles []troubleView
	More     int // troubles that are not shown
	Query    string
	Only     filter
	Rows     []rowView
	Matches  int // resources, of which Rows are some
	Holds    int
	Waiters  int
}

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

type troubleView struct {
	Level    level
	Resource string
	Says     string
	Holds    []holdView
	Waiting  int
	First    *waiterView // who waits longest
}

// rowView is a resource in the table.
type rowView struct {
	Level    level
	Resource string
	Holder   string
	More     int // holders that are not named
	Since    span
	Left     span
	Waiting  int
	Waited   span
}

func (d *Dashboard) overview(v *visit) {
	s, age, ok := v.look()
	if !ok {
		return
	}
	b := d.boardOf(s)
	query := v.r.URL.Query()
	body := overviewBody{Query: query.Get("q"), Only: filters[0]}
	if i := slices.IndexFunc(filters, func(f filter) bool { return f.Name == query.Get("only") }); i >= 0 {
		body.Only = filters[i]
	}
	var longest time.Duration
	worst, troubled := fine, 0
	for _, e := range b.entries {
		if !v.looks(e.Resource) {
			continue
		}
		body.Holds += len(e.Holds)
		body.Waiters += len(e.Waiters)
		longest, worst = max(longest, e.Waited), max(worst, e.Trouble.Level)
		if e.Trouble.Level > fine {
			if troubled++; len(body.Troubles) < maxTroubles {
				body.Troubles = append(body.Troubles, v.troubleView(e, age))
			} else {
				body.More++
			}
		}
		if !strings.Contains(e.Resource, body.Query) && !v.names(e, body.Query) || !body.Only.chooses(e) {
			continue
		}
		if body.Matches++; len(body.Rows) < maxRows {
			body.Rows = append(body.Rows, v.rowView(e, age))
		}
	}
	body.Level = worst
	if v.old {
		body.Level, age = max(worst, watch), 0
	}
	body.Summary = summary(troubled, body.Holds, body.Waiters, longest+age, s.Queue, v.old)
	look := body.Level.String()
	if v.seesPart() {
		body.Summary = "Of what you may look at, " + strings.ToLower(body.Summary[:1]) + body.Summary[1:]
		if look == fine.String() && body.Holds+body.Waiters == 0 {
			look = "part" // not as if all were well
		}
	}
	status := v.statusOf(s)
	v.show(http.StatusOK, page{Title: "Locks", Status: status, Main: group(
		html.H1(class("summary "+look), text(body.Summary)), status.seen(), body.first(), v.lost(), body.table(v.nothing(status.Seen)),
	)})
}

// first is what needs a look first.
func (b *overviewBody) first() node {
	if len(b.Troubles) == 0 {
		return group()
	}
	return section("trouble", text("Look at this first"),
		html.Ul(class("troubles"), each(b.Troubles, troubleView.card)),
		when(b.More > 0, func() node {
			return html.P(text(strconv.Itoa(b.More)+" more are in trouble: "), html.A(html.Href("?only=trouble"), text("all of them")), text("."))
		}),
	)
}

func (t troubleView) card() node {
	return html.Li(class("trouble "+t.Level.String()), html.Data("key", "t-"+url.PathEscape(t.Resource)),
		html.H3(badge(t.Level), text(" "), resourceLink(t.Resource), text(": "+t.Says+".")),
		each(t.Holds, holdView.line),
		when(t.First != nil, func() node {
			count, has := "", " has waited for "
			if t.Waiting > 1 {
				count, has = strconv.Itoa(t.Waiting)+" wait. ", " has waited longest, for "
			}
			return html.P(text(count), html.B(isolated(t.First.Who)), text(has), up(t.First.Age), text(": "+t.First.Reason+"."))
		}),
	)
}

// line says in one sentence who holds, how long, and until when.
func (h holdView) line() node {
	until := group(text("; ends in "), end(h.Left))
	switch {
	case h.Left.Forever:
		until = text("; it has no end")
	case h.Over:
		until = text("; its time is over, and nobody knows whether it was renewed")
	}
	renewed := "; granted "
	if h.Renewed {
		renewed = "; renewed "
		if h.Old {
			renewed = "; seen renewed "
		}
	}
	return html.P(text("Held by "), html.B(isolated(h.Who)), text(" "+h.Mode+", for "), up(h.Age), until,
		when(h.Silent.Known, func() node { return group(text(renewed), up(h.Silent), text(" ago")) }), text("."))
}

// nothing says why the table of all has no rows.
func (v *visit) nothing(seen bool) string {
	what := "Nothing"
	if v.seesPart() {
		what = "Nothing that you may look at"
	}
	switch {
	case !seen:
		return "The store has not answered yet."
	case v.old:
		return what + " was held when the store was seen last."
	}
	return what + " is held."
}

func (b *overviewBody) table(nothing string) node {
	rows := stacked("Resources", []string{"Resource", "Held by", "For", "Ends in", "Waiting", "Longest wait"}, each(b.Rows, rowView.row))
	switch {
	case len(b.Rows) > 0:
	case b.Query != "" || b.Only.Name != "":
		rows = empty(text("Nothing matches. "), html.A(html.Href("./"), text("Show all")))
	default:
		rows = empty(text(nothing))
	}
	return section("all", text("What is held"),
		html.Form(class("filters"), html.Method("get"), html.Action("./"), html.Role("search"),
			html.Label(text("Search "), html.Input(html.Type("search"), html.Name("q"), html.Value(b.Query),
				html.Placeholder("resource, owner, host, ref"), html.AutoComplete("off"))),
			html.Label(text("Show "), html.Select(html.Name("only"), each(filters, func(f filter) node {
				return html.Option(html.Value(f.Name), gomponents.If(f == b.Only, html.Selected()), text(f.Says))
			}))),
			html.Button(html.Type("submit"), text("Show")),
		),
		rows,
		when(b.Matches > len(b.Rows), func() node {
			return html.P(class("more"), text(fmt.Sprintf("These are the first %d of %d: search to see the others.", len(b.Rows), b.Matches)))
		}),
	)
}

func (r rowView) row() node {
	holder := html.I(text("free"))
	if r.Holder != "" {
		holder = isolated(r.Holder)
	}
	return html.Tr(html.Data("key", "r-"+url.PathEscape(r.Resource)),
		html.Th(html.Scope("row"), when(r.Level > fine, func() node { return group(badge(r.Level), text(" ")) }), resourceLink(r.Resource)),
		wide("Held by", holder, when(r.More > 0, func() node { return text(fmt.Sprintf(" and %d more", r.More)) })),
		cell("For", up(r.Since)), cell("Ends in", end(r.Left)), cell("Waiting", html.Span(class("number"), text(strconv.Itoa(r.Waiting)))), cell("Longest wait", up(r.Waited)),
	)
}

// refLength is that of a ref: a hold is found by all of it.
const refLength = 8

// names reports whether the text is in what a holder or a waiter is called.
func (v *visit) names(e *entry, part string) bool {
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

func (v *visit) troubleView(e *entry, age time.Duration) troubleView {
	t := troubleView{Level: e.Trouble.Level, Resource: e.Resource, Says: e.Trouble.Says, Waiting: len(e.Waiters)}
	for _, h := range e.Holds[:min(len(e.Holds), 3)] {
		t.Holds = append(t.Holds, v.holdView(h, age))
	}
	if len(e.Waiters) > 0 {
		i := oldest(e.Waiters)
		w := v.waiterView(e, i, age)
		t.First = &w
	}
	return t
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

func (v *visit) rowView(e *entry, age time.Duration) rowView {
	r := rowView{Level: e.Trouble.Level, Resource: e.Resource, Waiting: len(e.Waiters)}
	if len(e.Waiters) > 0 {
		r.Waited = v.grows(e.Waited, age)
	}
	if len(e.Holds) > 0 {
		h := e.Holds[0]
		r.Holder, r.More = words.Printable(words.Holder(h)), len(e.Holds)-1
		if over(h, age) {
			r.Level = max(r.Level, watch)
		}
		r.Since, r.Left = v.grows(h.Age(), age), v.shrinks(h.Left, age)
	}
	return r
}
