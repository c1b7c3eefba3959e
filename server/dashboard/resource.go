package dashboard

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

// resource serves the page of a resource.
func (d *Dashboard) resource(v *visit) {
	name := v.r.URL.Query().Get("name")
	if err := driver.ValidResource(name); err != nil {
		v.fail(http.StatusBadRequest, "The address names no resource.")
		return
	}
	if !v.looks(name) {
		v.fail(http.StatusForbidden, "You have no right to look at this resource.")
		return
	}
	s, ok := v.look()
	if !ok {
		return
	}
	e := d.boardOf(s).of(name)
	v.show(http.StatusOK, words.Printable(name), s,
		html.P(class("crumbs"), html.A(html.Href("./"), text("All locks"))),
		html.H1(isolated(words.Printable(name))),
		when(e.Trouble.Says != "", func() node { return html.P(badge(e.Trouble.Level), text(" Here "+e.Trouble.Says+".")) }),
		v.seen(s), v.usual(name, v.heldNow(e)), v.holders(e, s.Cut), v.queue(e, s.Queue), v.past(name),
	)
}

// heldNow returns how long the first of the holders has held it, or Unknown.
func (v *visit) heldNow(e *entry) time.Duration {
	longest := driver.Unknown
	if !v.old {
		for _, h := range e.Holds {
			longest = max(longest, v.grows(h.Age()))
		}
	}
	return longest
}

func (v *visit) holders(e *entry, cut bool) node {
	title, none := "Held", "Nobody holds it."
	switch {
	case cut && len(e.Holds) == 0:
		return section("holders", text("Not among what was looked at"))
	case len(e.Holds) > 0 && v.old:
		title = "Held when it was seen last"
	case len(e.Holds) > 0:
	case v.old:
		title, none = "Free when it was seen last", "Nobody knows who holds it now."
	default:
		title = "Free"
		if len(e.Waiters) > 0 {
			none = "Nobody holds it, though there are waiters: the next one to ask gets it."
			if i := slices.IndexFunc(e.Waiters, func(p driver.Place) bool { return p.Fair }); i >= 0 {
				none = "Nobody holds it. It is free for " + words.Printable(words.Waiter(e.Waiters[i])) + ", first in line."
			}
		}
	}
	return section("holders", text(title),
		each(e.Holds[:min(len(e.Holds), maxRows)], v.article), when(len(e.Holds) == 0, func() node { return empty(text(none)) }),
		more(len(e.Holds)-maxRows, "more holders are not shown."))
}

func (v *visit) queue(e *entry, kept bool) node {
	switch {
	case len(e.Waiters) > 0:
		var rows []node
		for i := range min(len(e.Waiters), maxRows) {
			rows = append(rows, v.waiterRow(e, i))
		}
		return section("queue", text(words.Count(len(e.Waiters), "waits", "wait")),
			stacked("Waiters", []string{"#", "Who waits", "Wants it", "For", "Order", "What is in its way"}, group(rows...)),
			more(len(e.Waiters)-maxRows, "more wait behind them."))
	case kept && v.old:
		return section("queue", text("Nobody waited when it was seen last"))
	case kept:
		return section("queue", text("Nobody waits"), empty(text("Nobody waits for it, or not for a second yet.")))
	}
	return section("queue", text("Who waits is not known"), empty(text("This store keeps no queue.")))
}

func (v *visit) waiterRow(e *entry, i int) node {
	p, number, place := e.Waiters[i], "", "–"
	if n := e.turn(i); n > 0 {
		number = strconv.Itoa(n)
		place = number + "."
	}
	return html.Tr(html.Data("key", "w"+strconv.Itoa(i)),
		html.Td(class("number"), html.Data("label", "Place"), text(place)),
		html.Td(class("first"), isolated(words.Printable(words.Waiter(p)))),
		v.waits(e, i),
	)
}
