package dashboard

import (
	"cmp"
	"net/http"
	"net/url"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/server/words"
)

// program serves the page of what one program holds and waits for.
func (d *Dashboard) program(v *visit) {
	s, ok := v.look()
	if !ok {
		return
	}
	ref, who := v.r.URL.Query().Get("ref"), ""
	var holds, waits []node // the first of them
	allHolds, allWaits := 0, 0
	for _, e := range d.boardOf(s).entries {
		if !v.looks(e.Resource) {
			continue
		}
		for _, h := range e.Holds {
			if programRef(h.LockID) != ref {
				continue
			}
			if allHolds++; allHolds <= maxRows {
				holds = append(holds, html.H3(resourceLink(h.Resource)), v.article(h))
			}
			who = cmp.Or(who, words.Printable(words.Holder(h)))
		}
		for i, p := range e.Waiters {
			if programRef(p.LockID) != ref {
				continue
			}
			if allWaits++; allWaits <= maxRows {
				waits = append(waits, html.Tr(html.Data("key", url.PathEscape(p.Resource)), html.Th(html.Scope("row"), resourceLink(p.Resource)), v.waits(e, i)))
			}
			who = cmp.Or(who, words.Printable(words.Waiter(p)))
		}
	}
	of, none := "", "This program holds nothing any more"
	if v.seesPart() {
		of, none = " that you may look at", "This program holds nothing that you may look at"
	}
	if v.old {
		none = "This program held nothing when the store was seen last"
	}
	held, waited := section("holds", text("Holds nothing"+of)), section("waits", text("Waits for nothing"+of))
	if allHolds > 0 {
		held = section("holds", text("Holds "+words.Count(allHolds, "lock", "locks")+of), group(holds...), more(allHolds-maxRows, "more holds are not shown."))
	}
	if allWaits > 0 {
		waited = section("waits", text("Waits for "+words.Count(allWaits, "lock", "locks")+of),
			stacked("What it waits for", []string{"Resource", "Wants it", "For", "Order", "What is in its way"}, group(waits...)),
			more(allWaits-maxRows, "more are not shown."))
	}
	v.show(http.StatusOK, cmp.Or(who, "A program"), s,
		html.P(class("crumbs"), html.A(html.Href("./"), text("All locks"))),
		html.H1(isolated(cmp.Or(who, none))), v.seen(s), held, waited,
	)
}
