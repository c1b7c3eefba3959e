package dashboard

import (
	"context"
	"fmt"
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
		if v.looks(h.Resource) && !(q.Losses && h.How == history.Forced) { // who forced that knows it
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
	var q history.Query
	if before := query.Get("before"); before != "" {
		var err error
		if q.Before, err = strconv.ParseInt(before, 10, 64); err != nil || q.Before < 1 {
			v.fail(http.StatusBadRequest, "The address names no hold.")
			return
		}
	}
	title, heading := "History", html.H1(text("Who held what"))
	if query.Has("name") {
		var ok bool
		if q.Resource, ok = v.named(); !ok {
			return
		}
		title = "History of " + words.Printable(q.Resource)
		heading = group(crumbs(), html.H1(says("History of %", resourceLink(q.Resource))))
	}
	v.show(http.StatusOK, title, heading, v.pastTable(q, maxRows, "Older"), v.kept())
}

// kept says what the history cannot show.
func (v *visit) kept() node {
	if v.d.opts.History == nil {
		return soft(says("No history is kept, which would show who had which lock, and how that ended: % keeps one.",
			html.Code(text("holdfast serve --history FILE"))))
	}
	s := v.d.opts.History.State()
	others := "Only what passes through this server is seen."
	if s.Looks {
		others = "Holds of others that are shorter than " + inSeconds(max(s.Period, time.Second)) + " are not seen."
	}
	return group(
		soft(says("This is what % has seen in the last %. "+others, name(s.Name), v.since(s.Since))),
		each(s.Gaps[:min(len(s.Gaps), shownGaps)], func(g history.Gap) node {
			to := text("now")
			if !g.To.IsZero() {
				to = says("% ago", v.since(g.To))
			}
			return soft(says("Not looked between % ago and %.", v.since(g.From), to))
		}),
		only(!s.Removed.IsZero(), soft(text("Its file is full: some of the oldest holds are missing."))),
		more(int(s.Dropped), "beginnings and ends are missing since the server was started: its file did not keep up."))
}

// since is the time from then on.
func (v *visit) since(at time.Time) node { return up(max(v.began.Sub(at), 0)) }

// moment says when something happened, with both times if only looks have shown it.
func (v *visit) moment(m history.Moment) node {
	return html.Span(only(m.By.Sub(m.After) > shortPause && !m.After.IsZero(), says("% to ", v.since(m.After))),
		says("% ago", v.since(m.By)), only(m.After.IsZero(), text(" or before")))
}

// pastTable shows holds, the newest first, and leads to older ones.
func (v *visit) pastTable(q history.Query, most int, further string) node {
	if v.d.opts.History == nil {
		return group()
	}
	holds, older, err := v.pastHolds(q, most)
	rest := url.Values{"before": {strconv.FormatInt(older, 10)}}
	titles := []string{"Holder", "Since", "Until", "Held for", "How it ended"}
	if q.Resource == "" {
		titles = slices.Insert(titles, 0, "Resource")
	} else {
		rest.Set("name", q.Resource)
	}
	leads := only(older > 0, soft(html.A(html.Href("history?"+rest.Encode()), text(further))))
	switch {
	case err != nil:
		return html.P(class("notice bad"), text("The history cannot be read. Locks go on. The server's log says why."))
	case len(holds) == 0 && q.Losses:
		return nil
	case len(holds) == 0:
		return group(soft(text("No hold is known"+map[bool]string{true: " that you may look at"}[v.seesPart()]+", as far back as this goes.")), leads)
	}
	return group(table("Who held it", titles, each(holds, func(h history.Hold) node {
		ended, long := cell(""), cell("")
		if h.How != "" {
			ended, long = cell("Until", v.moment(h.Ended)), cell("Held for", text(lengthOf(h.Ended.By.Sub(h.Began.By))))
		}
		return html.Tr(html.Data("key", "h-"+strconv.FormatInt(h.Number, 10)),
			only(q.Resource == "", html.Th(html.Scope("row"), resourceLink(h.Resource))),
			cell("Holder", class("wide"), name(words.Holder(driver.Status{Details: h.Details})),
				says(" %", html.Code(text(h.Ref))), quoted(h.Comment)),
			cell("Since", v.moment(h.Began)), ended, long, cell("", class("wide"), howText(h)))
	})), leads)
}

// lengthOf says how long a hold was held. It is rounded: one that ended by its TTL is shown so,
// whatever the clocks lack.
func lengthOf(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	return words.Duration(d)
}

// howText says how a hold ended.
func howText(h history.Hold) node {
	as, is := "note", map[history.How]string{
		"": "held still", history.Forced: " released by force", history.Lost: " ended without a release",
		history.Unknown: " released, perhaps by force, or its time was over: nobody saw which",
	}[h.How]
	if h.How == history.Forced || h.How == history.Lost {
		as = "hurts"
	}
	return group(only(h.How != "", html.Span(class("badge "+as), text(string(h.How)))), text(is),
		only(h.By != "", says(" by %", html.B(name(h.By)))), only(h.Reason != "", says(": “%”", name(h.Reason))))
}

// lost shows the losses of the last hour on the first page.
func (v *visit) lost() node {
	if v.d.opts.History == nil {
		return group()
	}
	past := v.pastTable(history.Query{Since: v.began.Add(-time.Hour), Losses: true}, latestHolds, "There may be more.")
	if past == nil {
		return group()
	}
	return section("lost", "Lost in the last hour", html.P(text("They ended without a release, as far as is known. "+
		"The holder may have gone on for a while after that: check its work.")), past)
}

// past shows who held one resource before, on its page.
func (v *visit) past(resource string) node {
	return section("past", "Who held it before",
		v.pastTable(history.Query{Resource: resource}, latestHolds, "All who held it"), v.kept())
}

// usual says how long the resource is held at other times.
func (v *visit) usual(resource string) node {
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
	return text(fmt.Sprintf("It is usually held for %s: 95 of 100 of the last %d holds took %s at most. ",
		lengthOf(lengths[(n-1)/2]), n, lengthOf(lengths[(n*95+99)/100-1])))
}
