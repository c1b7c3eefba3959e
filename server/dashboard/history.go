package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/words"
)

const (
	// readPatience is how long a page waits for the history: the locks are shown without it.
	readPatience = time.Second
	// readEvents is how many events are read at once, and readMost how many a page reads to
	// find those that the caller may see.
	readEvents, readMost = 500, 2000
	// latestEvents is how many a resource's page shows.
	latestEvents = 10
	// shownGaps is how many gaps of the history a page names, the newest.
	shownGaps = 3
	// fewHolds is of how many holds nothing is said about how long they usually are.
	fewHolds = 5
)

// happened are events for a page, the newest first.
type happened struct {
	events []history.Event
	older  int64 // before which there may be more; 0: nowhere
	err    error
}

// events reads those events of the query that the caller may see.
func (v *visit) events(q history.Query, most int) (h happened) {
	ctx, cancel := context.WithTimeout(v.r.Context(), readPatience)
	defer cancel()
	q.Limit = min(readEvents, max(most+1, 2)) // one more tells whether there are more
	if q.Resource == "" {
		q.Limit = readEvents
	}
	for read := 0; read < readMost; read += q.Limit {
		events, err := v.d.opts.History.Events(ctx, q)
		if err != nil {
			h.err = err
			v.noteUnread(err)
			return h
		}
		for _, e := range events {
			if len(h.events) == most {
				h.older = q.Before
				return h
			}
			q.Before = e.Number
			if v.looks(e.Resource) {
				h.events = append(h.events, e)
			}
		}
		if len(events) < q.Limit {
			return h
		}
	}
	h.older = q.Before
	return h
}

// noteUnread logs that a page lacks its history: once for each page, not for each time that
// it is loaded again.
func (v *visit) noteUnread(err error) {
	if !v.isPart() && v.r.Context().Err() == nil {
		v.d.opts.Logger.Warn("a page is shown without its history", "error", err)
	}
}

// historyPage serves what happened lately, of all resources or of one.
func (d *Dashboard) historyPage(v *visit) {
	query := v.r.URL.Query()
	name, before := query.Get("name"), int64(0)
	if text := query.Get("before"); text != "" {
		var err error
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
			v.fail(http.StatusBadRequest, "The address names no event.")
			return
		}
	}
	title, heading := "History", group(html.H1(text("What happened lately")))
	if query.Has("name") {
		if driver.ValidResource(name) != nil {
			v.fail(http.StatusBadRequest, "The address names no resource.")
			return
		}
		if !v.looks(name) {
			v.fail(http.StatusForbidden, "You have no right to look at this resource.")
			return
		}
		title = "History of " + words.Printable(name)
		heading = group(
			html.P(class("crumbs"), html.A(html.Href(link(name)), text("Who holds it now")), text(" · "), html.A(html.Href("history"), text("All resources"))),
			html.H1(text("History of "), isolated(words.Printable(name))),
		)
	}
	if d.opts.History == nil {
		v.show(http.StatusOK, title, nil, heading, noHistory())
		return
	}
	h := v.events(history.Query{Resource: name, Before: before}, maxRows)
	v.show(http.StatusOK, title, nil, heading, v.kept(),
		// Older pages have none: what they lack since would seem to be held still.
		when(name != "" && before == 0 && len(h.events) > 0, func() node { return v.timeline(h) }),
		v.eventTable(h, name == ""),
		when(h.older > 0, func() node {
			to := url.Values{"before": {strconv.FormatInt(h.older, 10)}}
			if name != "" {
				to.Set("name", name)
			}
			return html.P(class("more"), html.A(html.Href("history?"+to.Encode()), text("Older")))
		}),
	)
}

func noHistory() node {
	return empty(text("No history is kept, which would show here who had which lock, for how long, and how that ended. "), html.Code(text("holdfast serve")),
		text(" keeps one with "), html.Code(text("--history FILE")), text(", and a program with a dashboard of its own gives it one as "), html.Code(text("Options.History")), text("."))
}

func unread() node {
	return html.P(class("notice bad"), html.B(text("The history cannot be read.")), text(" Locks go on. The server's log says why."))
}

// kept says what the history cannot show.
func (v *visit) kept() node {
	s := v.d.opts.History.State()
	others := "Only what passes through this server is seen here."
	switch {
	case s.Looks && s.LooksFail != nil:
		others = "What others do is not seen now: looks at the store fail."
	case s.Looks && s.Cut:
		others = "The store has more than a look shows, so how others' holds end is not seen here."
	case s.Looks && s.Period > 0:
		others = "Holds of other servers and programs that are shorter than " + inSeconds(max(s.Period, time.Second)) + " are not seen here."
	case s.Looks:
		others = "What others do is seen from the first look on."
	}
	return group(
		html.P(class("seen"), when(!s.Since.IsZero(), func() node {
			return group(text("What "), isolated(words.Printable(s.Name)), text(" has seen in the last "), v.since(s.Since), text(". "))
		}), text(others)),
		each(s.Gaps[:min(len(s.Gaps), shownGaps)], v.gap),
		when(s.Err != nil, func() node {
			return html.P(class("notice bad"), html.B(text("The history is not written")), text(", for "), v.since(s.Failing),
				text(" already. Locks go on. The server's log says why."))
		}),
		when(s.Dropped > 0, func() node {
			return html.P(class("notice"), text(words.Count(int(s.Dropped), "event is", "events are")+
				" missing since the server was started: its file did not keep up, or could not be written."))
		}),
	)
}

// since is the time from then on.
func (v *visit) since(at time.Time) node { return up(max(v.began.Sub(at), 0)) }

// gap says of what time the history does not have all.
func (v *visit) gap(g history.Gap) node {
	ago := func(at time.Time) node { return group(v.since(at), text(" ago")) }
	to, why := text("now"), "looks at the store failed, so what others did is not known."
	if !g.To.IsZero() {
		to = ago(g.To)
	}
	if g.Cause == history.Down {
		why = "the server was not there."
	}
	return html.P(class("notice"), html.B(text("Not all is known")), text(" from "), ago(g.From), text(" to "), to, text(": "+why))
}

// eventTable shows events, the newest first.
func (v *visit) eventTable(h happened, named bool) node {
	titles := []string{"When", "What", "Holder", "Held for"}
	if named {
		titles = slices.Insert(titles, 1, "Resource")
	}
	switch {
	case h.err != nil:
		return unread()
	case len(h.events) == 0 && h.older > 0:
		return empty(text("Nothing of this time is yours to see."))
	case len(h.events) == 0 && named && v.seesPart():
		return empty(text("Nothing has happened to what you may look at, as far back as the history goes."))
	case len(h.events) == 0:
		return empty(text("Nothing has happened, as far back as the history goes."))
	}
	return stacked("What happened", titles, each(h.events, func(e history.Event) node {
		return html.Tr(html.Data("key", "e-"+strconv.FormatInt(e.Number, 10)),
			cell("", html.Span(class("when"), up(e.Ago(v.began)), text(" ago"))),
			when(named, func() node { return html.Th(html.Scope("row"), resourceLink(e.Resource)) }),
			wide("", eventText(e)),
			wide("Holder", isolated(words.Printable(holderOf(e))), html.Span(class("soft"), text(" ref "), html.Code(class("ref"), text(e.Ref))), when(e.Comment != "", func() node { return group(text(" “"), isolated(words.Printable(e.Comment)), text("”")) })),
			heldCell(e),
		)
	}))
}

func holderOf(e history.Event) string { return words.Holder(driver.Status{Details: e.Details}) }

// heldCell says how long a hold was held when it ended.
func heldCell(e history.Event) node {
	switch {
	case e.Kind.Begins():
		return cell("")
	case e.Held == driver.Unknown:
		return cell("Held for", text("–"))
	}
	return cell("Held for", length(lengthText(e.Held)))
}

// eventText says what became of a hold.
func eventText(e history.Event) node {
	as, says := "note", ""
	switch e.Kind {
	case history.Granted:
		as, says = "fine", words.Mode(e.Mode, e.Limit)
	case history.Seen:
		as, says = "fine", "held "+words.Mode(e.Mode, e.Limit)
	case history.Gone:
		says = "released, perhaps by force, or ended just then"
	case history.Forced:
		as, says = "hurts", "released by force"
	case history.Expired:
		as, says = "hurts", "ended without a release"
	case history.Lapsed:
		as, says = "hurts", "its time was over meanwhile, or it was released: nobody saw that"
	case history.Lost:
		as, says = "hurts", "its holder learned that it had ended"
	}
	return group(
		html.Span(class("badge "+as), text(string(e.Kind))), text(" "+says),
		when(e.Kind == history.Forced && e.Caller != "", func() node { return group(text(" by "), html.B(isolated(words.Printable(e.Caller)))) }),
		when(e.Reason != "", func() node { return group(text(": “"), isolated(words.Printable(e.Reason)), text("”")) }),
		when(e.Within > shortPause, func() node {
			return html.Span(class("soft"), text(" (up to "+lengthText(e.Within)+" earlier)"))
		}),
		when(e.Kind.Loss() && e.RenewedAgo > 0 && e.RenewedAgo != driver.Unknown, func() node {
			return html.Span(class("soft"), text(", last renewed "+lengthText(e.RenewedAgo)+" before"))
		}),
	)
}

// lost shows the losses of the last hour on the first page.
func (v *visit) lost() node {
	log := v.d.opts.History
	if log == nil {
		return group()
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), readPatience)
	defer cancel()
	all, err := log.Losses(ctx, v.began.Add(-time.Hour), readMost)
	if err != nil {
		v.noteUnread(err)
		return section("lost", text("Lost in the last hour"), unread())
	}
	full := len(all) == readMost
	mine := slices.DeleteFunc(all, func(e history.Event) bool { return !v.looks(e.Resource) })
	if len(mine) == 0 {
		return group()
	}
	shown := mine[:min(len(mine), latestEvents)]
	return section("lost", text("Lost in the last hour"),
		html.P(text(words.Count(len(mine), "hold has", "holds have")+" ended without a release as far as is known, or by force. The holder may have gone on for a while after that: check its work.")),
		when(full, func() node {
			return html.P(class("more"), text("There were more in all than a page looks at: not all of the hour's may be here."))
		}),
		v.eventTable(happened{events: shown}, true),
		more(len(mine)-len(shown), "more were lost."),
		html.P(class("more"), html.A(html.Href("history"), text("All that happened lately"))),
	)
}

// past shows what happened to one resource, on its page.
func (v *visit) past(resource string) node {
	if v.d.opts.History == nil {
		return section("past", text("What happened before"), noHistory())
	}
	h := v.events(history.Query{Resource: resource}, maxRows)
	all := h
	h.events = h.events[:min(len(h.events), latestEvents)]
	return section("past", text("What happened before"), v.kept(),
		when(len(all.events) > 0, func() node { return v.timeline(all) }),
		v.eventTable(h, false),
		when(len(all.events) > len(h.events), func() node {
			return html.P(class("more"), html.A(html.Href("history?"+url.Values{"name": {resource}}.Encode()), text("All that happened to it")))
		}),
	)
}

// usual says how long the resource is held at other times, beside how long it has been now.
func (v *visit) usual(resource string, now time.Duration) node {
	if v.d.opts.History == nil {
		return group()
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), readPatience)
	defer cancel()
	u, err := v.d.opts.History.Usual(ctx, resource)
	if err != nil {
		v.noteUnread(err)
		return group()
	}
	if u.Count < fewHolds {
		return group()
	}
	is := text("")
	if now != driver.Unknown && now > u.P95 {
		is = group(html.Span(class("badge watch"), text("longer than usual")), text(" "))
	}
	return html.P(is,
		when(now != driver.Unknown, func() node {
			return group(text("It has been held for "), up(now), text(" now. "))
		}),
		text("Usually that is "), length(lengthText(u.Median)), text(": half of the last "+words.Count(u.Count, "hold", "holds")+" took that at most, and 95 of 100 "), length(lengthText(u.P95)), text("."))
}

// timeline draws how a resource was held, by its events.
func (v *visit) timeline(h happened) node {
	bars, from := barsOf(h.events, v.began)
	blind := v.old || v.d.opts.History.State().LooksFail != nil
	if len(bars) == 0 {
		return group()
	}
	lanes, drawn := 1, 0
	x := func(at time.Time) float64 {
		return timelineWidth * min(max(float64(at.Sub(from))/float64(max(v.began.Sub(from), 1)), 0), 1)
	}
	var parts []node
	for _, b := range bars {
		if blind && b.class == "now" {
			b.class = "held" // nobody knows whether it still is
		}
		if b.lane >= maxLanes {
			continue
		}
		drawn++
		lanes = max(lanes, b.lane+1)
		left, width := x(b.from), max(x(b.to)-x(b.from), 3)
		y := float64(b.lane * laneHeight)
		parts = append(parts, svg("rect", gomponents.El("title", text(b.says)),
			"class", "bar "+b.class, "x", min(left, timelineWidth-3), "y", y+2, "width", width, "height", laneHeight-4))
		if b.class == "loss" { // not by its colour alone
			parts = append(parts, svg("rect", nil, "class", "end", "x", max(left+width-4, 0), "y", y, "width", 4, "height", laneHeight))
		}
	}
	label := "How it was held, from " + lengthText(v.began.Sub(from)) + " ago until now: " + words.Count(len(bars), "hold", "holds")
	return html.Figure(class("timeline"),
		gomponents.El("svg", gomponents.Attr("viewBox", "0 0 1000 "+strconv.Itoa(lanes*laneHeight)), gomponents.Attr("preserveAspectRatio", "none"),
			gomponents.Attr("height", strconv.Itoa(lanes+1)+"rem"), html.Role("img"), html.Aria("label", label), group(parts...)),
		html.FigCaption(html.Span(text(lengthText(v.began.Sub(from))+" ago")), html.Span(class("key"),
			html.Span(class("held"), text("held")), html.Span(class("now"), text("held now")), html.Span(class("loss"), text("lost"))), html.Span(text("now"))),
		more(len(bars)-drawn, "more were held at the same time."),
		when(h.older > 0, func() node {
			return html.P(class("more"), text("The time line begins where the last "+words.Count(len(h.events), "event", "events")+" do: there were others before."))
		}),
	)
}
