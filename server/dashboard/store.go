package dashboard

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/fit"
	"github.com/holdfast-go/holdfast/server/latency"
	"github.com/holdfast-go/holdfast/server/sight"
	"github.com/holdfast-go/holdfast/server/words"
)

// storeBody is what the page of the store shows.
type storeBody struct {
	Traits  driver.Traits
	Took    string // of the last look
	Holds   int
	Waiters int
	Seen    []fit.Finding
	Ops     []latency.Op
	Own     bool   // Ops are this Dashboard's looks alone
	Of      string // follows what is counted: of which it is, and when it was
}

// storePage serves the page of the store, also while it has not answered yet.
func (d *Dashboard) storePage(v *visit) {
	s := v.sight()
	body := storeBody{Traits: d.store.Traits(), Own: d.ownCalls}
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
	if v.seesPart() {
		body.Of = " that you may look at"
	}
	if v.old {
		body.Of += ", when it was seen last"
	}
	if d.opts.Latency != nil {
		body.Ops = d.opts.Latency.Report().Ops
		slices.SortStableFunc(body.Ops, func(a, b latency.Op) int { return cmp.Compare(opRank(a.Name), opRank(b.Name)) })
	}
	status := v.statusOf(s)
	body.Took = lengthText(s.Took)
	body.Seen = v.findings(s, body.Ops)
	v.show(http.StatusOK, page{Title: "Store", Status: status, Main: group(
		html.H1(text(cmp.Or(d.opts.Name, "The store"))), status.seen(), body.now(status), body.answers(), body.promises(),
	)})
}

func (b *storeBody) now(st status) node {
	return section("now", text("Now"), html.Dl(class("facts"),
		fact("Kind", text(b.Traits.Name)),
		when(st.Seen, func() node {
			return group(fact("Holds"+b.Of, text(strconv.Itoa(b.Holds))), when(b.Traits.Queue, func() node { return fact("Waiters"+b.Of, text(strconv.Itoa(b.Waiters))) }),
				fact("The last look at all of it took", text(b.Took)))
		}),
		when(st.Failing && !st.Others, func() node { return fact("No answer for", up(span{Known: true, Ms: st.Since})) }),
	))
}

// findings returns what was seen of the store, without a call for it.
func (v *visit) findings(s *sight.Sight, ops []latency.Op) (fs []fit.Finding) {
	say := func(check string, result fit.Verdict, text string) {
		fs = append(fs, fit.Finding{Check: check, Result: result, Text: text})
	}
	var failing, answered time.Time
	if v.d.opts.Latency != nil {
		failing, answered = v.d.opts.Latency.Answers()
	}
	switch {
	case !failing.IsZero() && v.began.Sub(answered) >= lately:
		say("answers", fit.Fail, "no call of it has been answered for "+ago(v.began.Sub(failing)))
	case !answered.IsZero():
		say("answers", fit.OK, "it has answered a call "+ago(v.began.Sub(answered))+" ago")
	}
	switch {
	case s.Err != nil:
		say("list", fit.Fail, "holds and waiters cannot be listed, for "+ago(v.began.Sub(s.Failing)))
	case !s.At.IsZero():
		say("list", fit.OK, "holds and waiters can be listed")
	}
	n, slowest := 0, time.Duration(0)
	for _, op := range ops {
		if locks(op.Name) {
			n, slowest = n+op.Calls, max(slowest, op.Slowest)
		}
	}
	if n == 0 {
		return fs
	}
	ttl, result := fit.SensibleTTL(slowest), fit.OK
	if ttl > defaultTTL {
		result = fit.Warn
	}
	say("ttl", result, "the shortest TTL that makes sense is "+words.Duration(ttl)+", by the slowest of "+
		words.Count(n, "acquire, renewal or release", "acquires, renewals and releases")+" in a quarter of an hour; the default is "+words.Duration(defaultTTL))
	return fs
}

// defaultTTL is that of Clients.
const defaultTTL = 30 * time.Second

func ago(d time.Duration) string { return span{Ms: d.Milliseconds()}.text() }

// locks reports whether holders wait for that operation.
func locks(op string) bool { return op == "acquire" || op == "renew" || op == "release" }

// promises shows what the traits mean, and what this page cannot know.
func (b *storeBody) promises() node {
	fs := fit.Promises(b.Traits)
	rank := func(f fit.Finding) int {
		return slices.Index([]fit.Verdict{fit.Fail, fit.Warn, fit.OK, fit.Note}, f.Result)
	}
	slices.SortStableFunc(fs, func(x, y fit.Finding) int { return cmp.Compare(rank(x), rank(y)) })
	return section("promises", text("What it promises"), findingTable("Promises", fs),
		html.P(class("more"), text("This page only looks, and writes nothing to the store. To try each right, whether tokens rise and how soon a waiter is woken, run "),
			html.Code(text("holdfast check")), text(": it locks a resource of its own for some seconds.")),
	)
}

func findingTable(label string, fs []fit.Finding) node {
	return html.Div(class("findings"), table(label, []string{"Result", "Check", "What that means"}, each(fs, func(f fit.Finding) node {
		return html.Tr(html.Td(verdict(f.Result)), html.Th(html.Scope("row"), text(f.Check)), html.Td(text(f.Text)))
	})))
}

// verdict is a badge, in the colours of the levels.
func verdict(r fit.Verdict) node {
	as := map[fit.Verdict]string{fit.OK: "fine", fit.Note: "note", fit.Warn: "watch", fit.Fail: "stuck"}[r]
	return html.Span(class("badge "+as), text(string(r)))
}
