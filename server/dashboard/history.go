package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/words"
)

const (
	// readPatience is how long a page waits for the history: the locks are shown without it.
	readPatience = time.Second
	// readMost is how many holds a page reads to find those that the caller may see.
	readMost = 2000
	// latestHolds is how many a resource's page shows, and shownGaps how many gaps.
	latestHolds, shownGaps = 10, 3
	// fewHolds is of how many holds nothing is said about how long they usually are.
	fewHolds = 5
)

// pastHolds reads those holds of the query that the caller may see, and before which number there
// may be more; 0: there are none.
func (v *visit) pastHolds(q history.Query, most int) (mine []history.Hold, older int64, err error) {
	ctx, cancel := context.WithTimeout(v.r.Context(), readPatience)
	defer cancel()
	if q.Limit = most + 1; q.Resource == "" {
		q.Limit = readMost
	}
	all, err := v.d.opts.History.Holds(ctx, q)
	if err != nil && !v.isPart() && v.r.Context().Err() == nil { // once, not each time the page is loaded again
		v.d.opts.Logger.Warn("a page is shown without its history", "error", err)
	}
	for i, h := range all {
		if len(mine) == most {
			return mine, all[i-1].Number, err
		}
		if v.looks(h.Resource) {
			mine = append(mine, h)
		}
	}
	if len(all) == q.Limit {
		older = all[len(all)-1].Number
	}
	return mine, older, err
}

// historyPage serves who held what lately, of all resources or of one.
func (d *Dashboard) historyPage(v *visit) {
	query := v.r.URL.Query()
	q := history.Query{Resource: query.Get("name")}
	if text := query.Get("before"); text != "" {
		var err error
		if q.Before, err = strconv.ParseInt(text, 10, 64); err != nil || q.Before < 1 {
			v.fail(http.StatusBadRequest, "The address names no hold.")
			return
		}
	}
	title, heading := "History", group(html.H1(text("Who held what")))
	if query.Has("name") {
		if driver.ValidResource(q.Resource) != nil {
			v.fail(http.StatusBadRequest, "The address names no resource.")
			return
		}
		if !v.looks(q.Resource) {
			v.fail(http.StatusForbidden, "You have no right to look at this resource.")
			return
		}
		name := words.Printable(q.Resource)
		title, heading = "History of "+name, group(
			html.P(class("crumbs"), html.A(html.Href(link(q.Resource)), text("Who holds it now")), text(" · "), html.A(html.Href("history"), text("All resources"))),
			html.H1(text("History of "), isolated(name)))
	}
	if d.opts.History == nil {
		v.show(http.StatusOK, title, nil, heading, noHistory())
		return
	}
	holds, older, err := v.pastHolds(q, maxRows)
	query.Set("before", strconv.FormatInt(older, 10))
	v.show(http.StatusOK, title, nil, heading, v.kept(), v.pastTable(holds, q.Resource == "", err),
		when(older > 0, func() node { return html.P(class("more"), html.A(html.Href("history?"+query.Encode()), text("Older"))) }))
}

func noHistory() node {
	return empty(text("No history is kept, which would show here who had which lock, for how long, and how that ended. "), html.Code(text("holdfast serve")),
		text(" keeps one with "), html.Code(text("--history FILE")), text(", and a program with a dashboard of its own gives it one as "), html.Code(text("Options.History")), text("."))
}

// kept says what the history cannot show.
func (v *visit) kept() node {
	s := v.d.opts.History.State()
	others := "Only what passes through this server is seen here."
	switch {
	case s.Looks && s.Period > 0:
		others = "Holds of other servers and programs that are shorter than " + inSeconds(max(s.Period, time.Second)) + " are not seen here."
	case s.Looks:
		others = "What others do is seen from the first look on."
	}
	notice := func(is bool, bad, says string) node {
		return when(is, func() node { return html.P(class("notice"+bad), text(says)) })
	}
	return group(
		html.P(class("seen"), text("What "), isolated(words.Printable(s.Name)), text(" has seen in the last "), v.since(s.Since), text(". "+others)),
		each(s.Gaps[:min(len(s.Gaps), shownGaps)], func(g history.Gap) node {
			to := text("now")
			if !g.To.IsZero() {
				to = group(v.since(g.To), text(" ago"))
			}
			return html.P(class("notice"), html.B(text("Not looked")), text(" at all of the store between "), v.since(g.From), text(" ago and "), to, text("."))
		}),
		notice(s.Err != nil, " bad", "The history is not written. Locks go on. The server's log says why."),
		notice(!s.Removed.IsZero(), "", "Its file is full: some of the oldest holds are missing."),
		notice(s.Dropped > 0, "", words.Count(int(s.Dropped), "beginning or end is", "beginnings and ends are")+
			" missing since the server was started: its file did not keep up, or could not be written."),
	)
}

// since is the time from then on.
func (v *visit) since(at time.Time) node { return up(max(v.began.Sub(at), 0)) }

// moment says when something happened, with both times if only looks have shown it.
func (v *visit) moment(m history.Moment) node {
	return html.Span(class("when"), when(m.By.Sub(m.After) > shortPause && !m.After.IsZero(), func() node { return group(v.since(m.After), text(" to ")) }),
		v.since(m.By), text(" ago"), when(m.After.IsZero(), func() node { return text(" or before") }))
}

// pastTable shows holds, the newest first.
func (v *visit) pastTable(holds []history.Hold, named bool, err error) node {
	switch {
	case err != nil:
		return html.P(class("notice bad"), html.B(text("The history cannot be read.")), text(" Locks go on. The server's log says why."))
	case len(holds) == 0:
		return empty(text("There is no hold that you may look at, as far back as this goes."))
	}
	titles := []string{"Holder", "Since", "Until", "Held for", "How it ended"}
	if named {
		titles = slices.Insert(titles, 0, "Resource")
	}
	return stacked("Who held it", titles, each(holds, func(h history.Hold) node {
		ended, long := cell(""), cell("")
		if h.How != "" {
			ended, long = cell("Until", v.moment(h.Ended)), cell("Held for", length(lengthText(h.Ended.By.Sub(h.Began.By))))
		}
		return html.Tr(html.Data("key", "h-"+strconv.FormatInt(h.Number, 10)),
			when(named, func() node { return html.Th(html.Scope("row"), resourceLink(h.Resource)) }),
			wide("Holder", isolated(words.Printable(words.Holder(driver.Status{Details: h.Details}))), html.Span(class("soft"), text(" ref "), html.Code(class("ref"), text(h.Ref))),
				when(h.Comment != "", func() node { return group(text(" “"), isolated(words.Printable(h.Comment)), text("”")) })),
			cell("Since", v.moment(h.Began)), ended, long, wide("", howText(h)))
	}))
}

// howText says how a hold ended.
func howText(h history.Hold) node {
	as, is, says := "note", string(h.How), ""
	switch h.How {
	case "":
		as, is, says = "fine", "held", words.Mode(h.Mode, h.Limit)
	case history.Forced:
		as, says = "hurts", "released by force"
	case history.Lost:
		as, says = "hurts", "ended without a release"
	case history.Unknown:
		says = "released, perhaps by force, or its time was over: nobody saw which"
	}
	return group(html.Span(class("badge "+as), text(is)), text(" "+says),
		when(h.By != "", func() node { return group(text(" by "), html.B(isolated(words.Printable(h.By)))) }),
		when(h.Reason != "", func() node { return group(text(": “"), isolated(words.Printable(h.Reason)), text("”")) }))
}

// lost shows the losses of the last hour on the first page.
func (v *visit) lost() node {
	if v.d.opts.History == nil {
		return group()
	}
	holds, older, err := v.pastHolds(history.Query{Since: v.began.Add(-time.Hour), Losses: true}, latestHolds)
	if err == nil && len(holds) == 0 {
		return group()
	}
	return section("lost", text("Lost in the last hour"),
		html.P(text("They ended without a release as far as is known, or by force. The holder may have gone on for a while after that: check its work.")),
		v.pastTable(holds, true, err),
		when(older > 0, func() node { return html.P(class("more"), text("There may be more.")) }),
		html.P(class("more"), html.A(html.Href("history"), text("Who held what lately"))))
}

// past shows who held one resource before, on its page.
func (v *visit) past(resource string) node {
	if v.d.opts.History == nil {
		return section("past", text("Who held it before"), noHistory())
	}
	holds, older, err := v.pastHolds(history.Query{Resource: resource}, latestHolds)
	return section("past", text("Who held it before"), v.kept(), v.pastTable(holds, false, err),
		when(older > 0, func() node {
			return html.P(class("more"), html.A(html.Href("history?"+url.Values{"name": {resource}}.Encode()), text("All who held it")))
		}))
}

// usual says how long the resource is held at other times, beside how long it has been now.
func (v *visit) usual(resource string, now time.Duration) node {
	if v.d.opts.History == nil {
		return group()
	}
	holds, _, err := v.pastHolds(history.Query{Resource: resource}, maxRows)
	var lengths []time.Duration
	for _, h := range holds {
		if h.How == history.Released || h.How == history.Unknown && !h.Began.After.IsZero() {
			lengths = append(lengths, h.Ended.By.Sub(h.Began.By))
		}
	}
	n := len(lengths)
	if err != nil || n < fewHolds {
		return group()
	}
	slices.Sort(lengths)
	most := lengths[(n*95+99)/100-1]
	return html.P(when(now > most, func() node { return group(html.Span(class("badge watch"), text("longer than usual")), text(" ")) }),
		when(now != driver.Unknown, func() node { return group(text("It has been held for "), up(now), text(" now. ")) }),
		text("Usually that is "), length(lengthText(lengths[(n-1)/2])), text(": half of the last "+words.Count(n, "hold", "holds")+" took that at most, and 95 of 100 "),
		length(lengthText(most)), text("."))
}
