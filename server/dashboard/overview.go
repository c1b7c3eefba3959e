package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/words"
)

const (
	// maxRows is how many rows a page has at most. A narrow window shows narrowRows of them.
	maxRows, narrowRows = 200, 50
	// maxTroubles is how many troubles are explained at a time, and maxHolds how many holds of
	// each.
	maxTroubles, maxHolds = 12, 3
	// refLength is that of a ref: a hold is found by all of it.
	refLength = 8
)

type filter struct {
	name, says string
	chooses    func(*entry) bool
}

var filters = []filter{
	{"", "all", func(*entry) bool { return true }},
	{"waited", "somebody waits", func(e *entry) bool { return len(e.Waiters) > 0 }},
	{"trouble", "in trouble", func(e *entry) bool { return e.Level > fine }},
	{"endless", "without an end", func(e *entry) bool {
		return slices.ContainsFunc(e.Holds, func(h driver.Status) bool { return h.Left == driver.Forever })
	}},
}

// overview serves the first page.
func (d *Dashboard) overview(v *visit) {
	if v.blind() {
		return
	}
	query := v.r.URL.Query()
	search, at := query.Get("q"), slices.IndexFunc(filters, func(f filter) bool { return f.name == query.Get("only") })
	chosen := filters[max(0, at)]
	var troubled, matching []*entry
	var longest time.Duration
	worst, holds, waiters, hosts := v.worst(), 0, 0, map[string]int{}
	for _, e := range d.boardOf(v.sight).entries {
		if !v.looks(e.Resource) || len(e.Holds)+len(e.Waiters) == 0 {
			continue
		}
		holds, waiters, worst = holds+len(e.Holds), waiters+len(e.Waiters), max(worst, e.Level)
		if len(e.Waiters) > 0 {
			longest = max(longest, v.of(e).grows(e.Waited))
		}
		if e.Level > fine {
			troubled = append(troubled, e)
		}
		if (strings.Contains(e.Resource, search) || e.names(search)) && chosen.chooses(e) {
			matching = append(matching, e)
		}
		for _, h := range e.Holds {
			if search != "" && strings.Contains(h.Host, search) && v.caller.May(access.Force, e.Resource) {
				hosts[h.Host]++
			}
		}
	}
	look := worst.String()
	if worst == fine && v.seesPart() && holds+waiters == 0 {
		look = "part" // not as if all were well
	}
	v.show(http.StatusOK, "Locks", html.H1(class("summary "+look), text(v.summary(len(troubled), holds, waiters, longest))),
		v.first(troubled), v.lost(), v.all(matching, search, chosen, hosts))
}

// blind shows, if nothing was seen of the store yet, that this is so.
func (v *visit) blind() bool {
	if !v.sight.At.IsZero() {
		return false
	}
	v.show(http.StatusOK, "Locks", html.H1(class("summary watch"), text("Nobody knows yet what is held")))
	return true
}

// summary says how it is or, if the look is old, how it was.
func (v *visit) summary(troubled, holds, waiters int, longest time.Duration) string {
	queue := v.sight.Queue
	var says string
	switch {
	case troubled > 0:
		says = words.Count(troubled, "resource needs", "resources need") + " a look. "
	case holds+waiters > 0 && !v.doubtful():
		says = "Nothing is stuck. "
	}
	says += words.Count(holds, "hold", "holds") + "; "
	switch {
	case !queue:
		says += "the store does not know who waits."
	case waiters == 0:
		says += "nobody waits."
	default:
		says += words.Count(waiters, "waits", "wait") + ", the longest for " + inSeconds(longest) + "."
	}
	if holds+waiters == 0 {
		says = map[bool]string{true: "Nothing is held, and nobody waits.", false: "Nothing is held."}[queue]
	}
	if v.seesPart() {
		says = "Of what you may look at, " + strings.ToLower(says[:1]) + says[1:]
	}
	if v.old {
		says = "Nobody knows what is held now. When it was seen last: " + says
	}
	return says
}

// first is what needs a look first.
func (v *visit) first(troubled []*entry) node {
	if len(troubled) == 0 {
		return group()
	}
	return section("trouble", "Look at this first", html.Ul(each(troubled[:min(len(troubled), maxTroubles)], v.card)),
		only(len(troubled) > maxTroubles, html.P(says(strconv.Itoa(len(troubled)-maxTroubles)+" more are in trouble: %.",
			html.A(html.Href("?only=trouble"), text("all of them"))))))
}

// card says what is wrong with a resource, who holds it and who waits longest.
func (v *visit) card(e *entry) node {
	v = v.of(e)
	return html.Li(class("trouble "+e.Level.String()), html.Data("key", "t-"+url.PathEscape(e.Resource)),
		html.H3(badge(e.Level), text(" "), resourceLink(e.Resource)),
		v.holds(e, maxHolds), v.longest(e))
}

// holds says who hold it, so many of them.
func (v *visit) holds(e *entry, most int) node {
	return group(each(e.Holds[:min(len(e.Holds), most)], func(h driver.Status) node { return v.hold(h, true) }),
		more(len(e.Holds)-most, "more hold it."))
}

// longest says who waits longest.
func (v *visit) longest(e *entry) node {
	if len(e.Waiters) == 0 {
		return group()
	}
	longest, count := 0, ""
	for i, p := range e.Waiters {
		if p.Age() > e.Waiters[longest].Age() {
			longest = i
		}
	}
	if n := len(e.Waiters); n > 1 {
		count = strconv.Itoa(n) + " wait. Longest: "
	}
	return html.P(text(count), v.waiter(e, longest))
}

// all is the table of what is held, or of what the search and the filter choose of it.
// hosts are those whose names have the search in them, with how many holds the caller may end.
func (v *visit) all(matching []*entry, search string, chosen filter, hosts map[string]int) node {
	shown := matching[:min(len(matching), maxRows)]
	rows := soft(says("Nothing matches. %", html.A(html.Href("./"), text("Show all"))))
	switch {
	case len(shown) > 0:
		titles := []string{"Resource", "Held by", "For", "Time left", "Waiting", "Longest wait"}
		if slices.ContainsFunc(shown, func(e *entry) bool { return v.caller.May(access.Force, e.Resource) }) {
			titles = append(titles, "Release")
		}
		rows = html.Div(class("rows"), table("Resources", titles, each(shown, v.row)))
	case search == "" && chosen.name == "":
		rows = group()
	}
	first := func(n int) string {
		return fmt.Sprintf("These are the first %d of %d: search to see the others.", n, len(matching))
	}
	return section("all", "What is held",
		html.Form(class("filters"), html.Method("get"), html.Action("./"), html.Role("search"),
			html.Label(text("Search "), html.Input(html.Type("search"), html.Name("q"), html.Value(search),
				html.Placeholder("resource, owner, host, ref"), html.AutoComplete("off"))),
			html.Label(text("Show "), html.Select(html.Name("only"), each(filters, func(f filter) node {
				return html.Option(html.Value(f.name), only(f.name == chosen.name, html.Selected()), text(f.says))
			}))),
			html.Button(html.Type("submit"), text("Show")),
			v.releaseHost(search, hosts)),
		rows,
		only(len(matching) > maxRows, html.P(class("soft wide-only"), text(first(maxRows)))),
		only(len(matching) > narrowRows, html.P(class("soft narrow-only"), text(first(narrowRows)))))
}

// releaseHost leads to the release of all that one host holds, if the search names or finds one.
func (v *visit) releaseHost(search string, hosts map[string]int) node {
	if n := hosts[search]; n > 0 {
		hosts = map[string]int{search: n}
	}
	if len(hosts) > 1 {
		return soft(text("To release all that a host holds, search for the whole name of one host."))
	}
	for host, n := range hosts {
		return danger(url.Values{"host": {host}}, "Release by force: all of "+words.Printable(host),
			"Release all "+words.Count(n, "hold", "holds")+" of "+words.Printable(host)+"…")
	}
	return group()
}

// row is a resource in the table.
func (v *visit) row(e *entry) node {
	v = v.of(e)
	level, holder, since, rest, waited := e.Level, html.I(text("free")), driver.Unknown, driver.Unknown, driver.Unknown
	release := group()
	if len(e.Holds) > 0 {
		h, ref := e.Holds[0], ""
		holder, since, rest = name(words.Holder(h)), v.grows(h.Age()), v.shrinks(h.Left)
		if v.over(h) {
			level = max(level, watch)
		}
		if len(e.Holds) == 1 {
			ref = wire.RefOf(h.HoldID)
		}
		release = v.releaseLink(e.Resource, ref)
	}
	if len(e.Waiters) > 0 {
		waited = v.grows(e.Waited)
	}
	return html.Tr(html.Data("key", "r-"+url.PathEscape(e.Resource)),
		html.Th(html.Scope("row"), only(level > fine, group(badge(level), text(" "))), resourceLink(e.Resource)),
		cell("Held by", class("wide"), holder, only(len(e.Holds) > 1, text(fmt.Sprintf(" and %d more", len(e.Holds)-1)))),
		cell("For", up(since)), cell("Time left", left(rest)), cell("Waiting", text(strconv.Itoa(len(e.Waiters)))),
		cell("Longest wait", up(waited)), cell("", release))
}

// names reports whether the text is in what a holder or a waiter is called.
func (e *entry) names(part string) bool {
	return slices.ContainsFunc(e.Holds, func(h driver.Status) bool {
		return strings.Contains(words.Holder(h), part) || strings.Contains(h.Comment, part) ||
			len(part) == refLength && wire.RefOf(h.HoldID) == part
	}) || slices.ContainsFunc(e.Waiters, func(p driver.Place) bool { return strings.Contains(words.Waiter(p), part) })
}

// of returns the holds whose holders say that they run on the host.
func (e *entry) of(host string) (holds []driver.Status) {
	for _, h := range e.Holds {
		if h.Host == host {
			holds = append(holds, h)
		}
	}
	return holds
}

// resource serves the page of a resource.
func (d *Dashboard) resource(v *visit) {
	resource, ok := v.named()
	if !ok || v.blind() {
		return
	}
	e := d.boardOf(v.sight).of(resource)
	v = v.of(e)
	v.show(http.StatusOK, words.Printable(resource), crumbs(),
		html.H1(name(resource), only(e.Level > fine, group(text(" "), badge(e.Level)))),
		html.P(v.usual(resource), button("look", url.PathEscape(resource), "Look now")),
		v.holders(e), v.queue(e), v.past(resource))
}

// named returns the resource that the address names. If there is none, or the caller may not
// see it, it has answered.
func (v *visit) named() (resource string, ok bool) {
	resource = v.r.URL.Query().Get("name")
	switch {
	case driver.ValidResource(resource) != nil:
		v.fail(http.StatusBadRequest, "The address names no resource.")
	case !v.looks(resource):
		v.fail(http.StatusForbidden, "You have no right to look at this resource.")
	default:
		return resource, true
	}
	return resource, false
}

// holders says who holds a resource.
func (v *visit) holders(e *entry) node {
	none := "Nobody held it at the last look."
	if v.sight.Cut && e.later == 0 {
		none = "It is not among what was looked at."
	}
	return section("holders", "Who holds it", only(len(e.Holds) == 0, soft(text(none))),
		v.holds(e, maxRows))
}

// queue says who waits for a resource, and why.
func (v *visit) queue(e *entry) node {
	none := "Nobody waited at the last look."
	if !v.sight.Queue {
		none = "Nobody knows: this store keeps no queue."
	}
	var all []node
	for i := range min(len(e.Waiters), maxRows) {
		all = append(all, html.Li(html.Data("key", fmt.Sprint("w", i)), v.waiter(e, i)))
	}
	list := html.Ul(class("waiters"), group(all...))
	if len(all) == 0 {
		list = soft(text(none))
	}
	return section("queue", "Who waits", list, more(len(e.Waiters)-maxRows, "more wait behind them."))
}
