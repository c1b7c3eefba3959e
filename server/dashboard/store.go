package dashboard

import (
	"cmp"
	"net/http"
	"strconv"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/server/words"
)

// storeBody is what the page of the store shows.
type storeBody struct {
	Traits  []traitView
	Took    string // of the last look
	Holds   int
	Waiters int
}

type traitView struct {
	Name string
	Has  bool
	Says string
}

func (d *Dashboard) storePage(v *visit) {
	s, _, ok := v.look()
	if !ok {
		return
	}
	body := storeBody{Took: words.Duration(s.Took)}
	for _, h := range s.Holds {
		if v.looks(h.Resource) {
			body.Holds++
		}
	}
	for _, p := range s.Waiters {
		if v.looks(p.Resource) {
			body.Waiters++
		}
	}
	body.Traits = traitsOf(d.store.Traits())
	status := v.statusOf(s)
	v.show(http.StatusOK, page{Title: "Store", Status: status, Main: group(
		html.H1(text(cmp.Or(d.opts.Name, "The store"))), status.seen(),
		section("now", text("Now"), html.Dl(class("facts"),
			fact("Holds", text(strconv.Itoa(body.Holds))), fact("Waiters", text(strconv.Itoa(body.Waiters))),
			fact("The last look at all of it took", text(body.Took)),
		)),
		section("traits", text("What it promises"),
			html.Table(class("traits"), html.TBody(each(body.Traits, func(t traitView) node {
				return html.Tr(html.Th(html.Scope("row"), text(t.Name)), html.Td(text(t.Says)))
			}))),
			html.P(html.Code(text("holdfast check")), text(" tries all of it, and says what is not fit.")),
		),
	)})
}
