package dashboard

import (
	"net/http"
	"slices"
	"time"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
)

// resourceBody is what the page of a resource shows.
type resourceBody struct {
	Resource  string
	Level     level
	Says      string
	Holds     []holdView
	MoreHolds int
	Waiters   []waiterView
	MoreWait  int
	Old       bool // looks fail since
}

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
	s, age, ok := v.look()
	if !ok {
		return
	}
	e := d.boardOf(s).of(name)
	body := resourceBody{
		Old: v.old, Resource: name, Level: e.Trouble.Level, Says: e.Trouble.Says,
		MoreHolds: max(len(e.Holds)-maxRows, 0), MoreWait: max(len(e.Waiters)-maxRows, 0),
	}
	for _, h := range e.Holds[:len(e.Holds)-body.MoreHolds] {
		body.Holds = append(body.Holds, v.holdView(h, age))
	}
	for i := range len(e.Waiters) - body.MoreWait {
		body.Waiters = append(body.Waiters, v.waiterView(e, i, age))
	}
	status := v.statusOf(s)
	heldNow := heldNow(e, age)
	if v.old {
		heldNow = driver.Unknown
	}
	v.show(http.StatusOK, page{Title: words.Printable(name), Status: status, Main: group(
		html.P(class("crumbs"), html.A(html.Href("./"), text("All locks"))),
		html.H1(isolated(words.Printable(name))),
		when(body.Says != "", func() node { return html.P(badge(body.Level), text(" Here "+body.Says+".")) }),
		status.seen(),
		v.usual(name, heldNow), body.holders(s.Cut), body.queue(status.Queue), v.past(name),
	)})
}

// heldNow returns how long the first of the holders has held it, or Unknown.
func heldNow(e *entry, sightAge time.Duration) time.Duration {
	longest := driver.Unknown
	for _, h := range e.Holds {
		if age := h.Age(); age != driver.Unknown {
			longest = max(longest, age+sightAge)
		}
	}
	return longest
}

func (b *resourceBody) holders(cut bool) node {
	title, none := "Held", "Nobody holds it."
	if b.Old {
		title = "Held when it was seen last"
	}
	if cut && len(b.Holds) == 0 {
		return section("holders", text("Not among what was looked at"))
	}
	switch {
	case len(b.Holds) > 0:
	case b.Old:
		title, none = "Free when it was seen last", "Nobody knows who holds it now."
	default:
		title = "Free"
		if len(b.Waiters) > 0 {
			none = "Nobody holds it, though there are waiters: the next one to ask gets it."
			if i := slices.IndexFunc(b.Waiters, func(w waiterView) bool { return w.Number != "" }); i >= 0 {
				none = "Nobody holds it. It is free for " + b.Waiters[i].Who + ", first in line."
			}
		}
	}
	return section("holders", text(title),
		each(b.Holds, holdView.article), when(len(b.Holds) == 0, func() node { return empty(text(none)) }),
		more(b.MoreHolds, "more holders are not shown."))
}

func (b *resourceBody) queue(kept bool) node {
	switch {
	case len(b.Waiters) > 0:
		return section("queue", text(words.Count(len(b.Waiters)+b.MoreWait, "waits", "wait")),
			stacked("Waiters", []string{"#", "Who waits", "Wants it", "For", "Order", "What is in its way"}, each(b.Waiters, waiterView.row)),
			more(b.MoreWait, "more wait behind them."))
	case kept && b.Old:
		return section("queue", text("Nobody waited when it was seen last"))
	case kept:
		return section("queue", text("Nobody waits"), empty(text("Nobody waits for it, or not for a second yet.")))
	}
	return section("queue", text("Who waits is not known"), empty(text("This store keeps no queue.")))
}

func (w waiterView) row() node {
	place := "–"
	if w.Number != "" {
		place = w.Number + "."
	}
	return html.Tr(html.Data("key", w.Program+w.Number),
		html.Td(class("number"), html.Data("label", "Place"), text(place)),
		html.Td(class("first"), html.A(html.Href(programLink(w.Program)), isolated(w.Who))),
		cell("Wants it", text(w.Mode)), cell("For", up(w.Age)), cell("Order", text(w.Order)), wide("Why", w.reason()),
	)
}

// reason says what is in the way of the waiter, or that it seems to be gone.
func (w waiterView) reason() node {
	if w.Late {
		return group(text("It has not asked for "), up(w.Asked), text(", and its place ends in "), down(w.Left), text("."))
	}
	return text(w.Reason)
}
