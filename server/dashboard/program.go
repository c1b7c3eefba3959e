package dashboard

import (
	"cmp"
	"net/http"
	"net/url"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/server/words"
)

// programBody is what one program holds and waits for.
type programBody struct {
	Ref       string
	Who       string
	Holds     []holdView
	Waiters   []waiterView
	MoreHolds int
	MoreWait  int
	Of        string // follows what is counted, if the caller may not see all
}

func (d *Dashboard) program(v *visit) {
	s, age, ok := v.look()
	if !ok {
		return
	}
	b := d.boardOf(s)
	body := programBody{Ref: v.r.URL.Query().Get("ref")}
	for _, e := range b.entries {
		if !v.looks(e.Resource) {
			continue
		}
		for _, h := range e.Holds {
			if programRef(h.LockID) != body.Ref {
				continue
			}
			if len(body.Holds) == maxRows {
				body.MoreHolds++
				continue
			}
			body.Holds = append(body.Holds, v.holdView(h, age))
			body.Who = cmp.Or(body.Who, words.Printable(words.Holder(h)))
		}
		for i, p := range e.Waiters {
			if programRef(p.LockID) != body.Ref {
				continue
			}
			if len(body.Waiters) == maxRows {
				body.MoreWait++
				continue
			}
			body.Waiters = append(body.Waiters, v.waiterView(e, i, age))
			body.Who = cmp.Or(body.Who, words.Printable(words.Waiter(p)))
		}
	}
	status, none := v.statusOf(s), "This program holds nothing any more"
	if v.seesPart() {
		body.Of, none = " that you may look at", "This program holds nothing that you may look at"
	}
	if v.old {
		none = "This program held nothing when the store was seen last"
	}
	v.show(http.StatusOK, page{Title: cmp.Or(body.Who, "A program"), Status: status, Main: group(
		html.P(class("crumbs"), html.A(html.Href("./"), text("All locks"))),
		html.H1(isolated(cmp.Or(body.Who, none))), status.seen(), body.holds(), body.waits(),
	)})
}

func (b *programBody) holds() node {
	n := len(b.Holds) + b.MoreHolds
	if n == 0 {
		return section("holds", text("Holds nothing"+b.Of))
	}
	return section("holds", text("Holds "+words.Count(n, "lock", "locks")+b.Of),
		each(b.Holds, func(h holdView) node { return group(html.H3(resourceLink(h.Resource)), h.article()) }),
		more(b.MoreHolds, "more holds are not shown."))
}

func (b *programBody) waits() node {
	n := len(b.Waiters) + b.MoreWait
	if n == 0 {
		return section("waits", text("Waits for nothing"+b.Of))
	}
	return section("waits", text("Waits for "+words.Count(n, "lock", "locks")+b.Of),
		stacked("What it waits for", []string{"Resource", "Wants it", "For", "Order", "What is in its way"}, each(b.Waiters, func(w waiterView) node {
			return html.Tr(html.Data("key", url.PathEscape(w.Resource)), html.Th(html.Scope("row"), resourceLink(w.Resource)), cell("Wants it", text(w.Mode)),
				cell("For", up(w.Age)), cell("Order", text(w.Order)), wide("Why", w.reason()))
		})),
		more(b.MoreWait, "more are not shown."))
}
