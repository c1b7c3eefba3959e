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

// storePage serves the page of the store, also while it has not answered yet.
func (d *Dashboard) storePage(v *visit) {
	s := v.sight()
	var ops []latency.Op
	if d.opts.Latency != nil {
		ops = d.opts.Latency.Ops()
		slices.SortStableFunc(ops, func(a, b latency.Op) int { return cmp.Compare(opRank(a.Name), opRank(b.Name)) })
	}
	traits := d.store.Traits()
	v.show(http.StatusOK, "Store", s,
		html.H1(text(cmp.Or(d.opts.Name, "The store"))), v.seen(s), v.now(s, traits), d.answers(ops, v.findings(s, ops)), promises(traits),
	)
}

// now says how the store is.
func (v *visit) now(s *sight.Sight, traits driver.Traits) node {
	holds, waiters, of := 0, 0, ""
	for _, h := range s.Holds {
		if v.looks(h.Resource) {
			holds++
		}
	}
	for _, p := range s.Waiters {
		if v.looks(p.Resource) {
			waiters++
		}
	}
	if v.seesPart() {
		of = " that you may look at"
	}
	if v.old {
		of += ", when it was seen last"
	}
	since, answered := v.failing(s)
	return section("now", text("Now"), html.Dl(class("facts"),
		fact("Kind", text(traits.Name)),
		when(!s.At.IsZero(), func() node {
			return group(fact("Holds"+of, text(strconv.Itoa(holds))), when(traits.Queue, func() node { return fact("Waiters"+of, text(strconv.Itoa(waiters))) }),
				fact("The last look at all of it took", text(lengthText(s.Took))))
		}),
		when(s.Err != nil && answered == driver.Unknown, func() node { return fact("No answer for", up(since)) }),
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
		say("answers", fit.Fail, "no call of it has been answered for "+inSeconds(v.began.Sub(failing)))
	case !answered.IsZero():
		say("answers", fit.OK, "it has answered a call "+inSeconds(v.began.Sub(answered))+" ago")
	}
	switch {
	case s.Err != nil:
		say("list", fit.Fail, "holds and waiters cannot be listed, for "+inSeconds(v.began.Sub(s.Failing)))
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

// locks reports whether holders wait for that operation.
func locks(op string) bool { return op == "acquire" || op == "renew" || op == "release" }

// promises shows what the traits mean, and what this page cannot know.
func promises(traits driver.Traits) node {
	fs := fit.Promises(traits)
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
