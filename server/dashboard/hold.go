package dashboard

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/words"
)

// grows returns an age as it is now: the sight has shown it a while ago.
func (v *visit) grows(d time.Duration) time.Duration {
	if d == driver.Unknown {
		return d
	}
	return d + v.age
}

// shrinks returns what is left now.
func (v *visit) shrinks(d time.Duration) time.Duration {
	if d == driver.Unknown || d == driver.Forever {
		return d
	}
	return max(d-v.age, 0)
}

// over reports whether the time of a hold has ended since the look, unless it was renewed.
func (v *visit) over(h driver.Status) bool {
	return !h.Released && h.Left > 0 && h.Left <= v.age // Forever is the longest, and Unknown less than 0
}

// renewal is what was done when the hold was heard of last.
func (v *visit) renewal(h driver.Status) string {
	switch {
	case h.Renewed.IsZero():
		return "Granted"
	case v.old:
		return "Seen renewed"
	}
	return "Renewed"
}

// line says in one sentence who holds, how long, and until when.
func (v *visit) line(h driver.Status) node {
	until := group(text("; ends in "), end(v.shrinks(h.Left)))
	switch {
	case h.Left == driver.Forever:
		until = text("; it has no end")
	case v.over(h):
		until = text("; its time is over, and nobody knows whether it was renewed")
	}
	silent := v.grows(words.PulseOf(h).Silent)
	return html.P(text("Held by "), html.B(isolated(words.Printable(words.Holder(h)))), text(" "+words.Mode(h.Mode, h.Limit)+", for "), up(v.grows(h.Age())), until,
		when(silent != driver.Unknown, func() node { return group(text("; "+strings.ToLower(v.renewal(h))+" "), up(silent), text(" ago")) }), text("."))
}

// article shows a hold with all that the caller may see of it.
func (v *visit) article(h driver.Status) node {
	ref, who, comment := wire.RefOf(h.HoldID), words.Printable(words.Holder(h)), words.Printable(h.Comment)
	token, force := strconv.FormatUint(h.Token, 10), v.caller.May(access.Force, h.Resource)
	pulse, says := v.vitality(h)
	silent := v.grows(words.PulseOf(h).Silent)
	return html.Article(class("hold"), html.ID(ref), html.Data("key", ref),
		html.H3(isolated(who), text(" "), html.Span(class("pulse "+pulse), text(pulse))),
		html.P(text(says), when(comment != "", func() node { return group(text(" “"), isolated(comment), text("”")) })),
		html.Dl(class("facts"),
			fact("Holds it", text(words.Mode(h.Mode, h.Limit))),
			fact("For", up(v.grows(h.Age()))),
			fact(v.renewal(h), up(silent), when(silent != driver.Unknown, func() node { return text(" ago") })),
			fact("Ends in", end(v.shrinks(h.Left))),
			when(h.TakeoverDelay > 0, func() node { return fact("Then keeps others out for", text(words.Duration(h.TakeoverDelay))) }),
			when(force || v.isOwn(h.Resource, h.LockID), func() node { return fact("Token", html.Span(class("number"), text(token))) }),
			when(ref != "", func() node {
				return fact("For a ticket", html.A(html.Href(link(h.Resource)+"#"+ref), text(ref)))
			}),
		),
		when(!force && (pulse == "endless" || pulse == "silent" || pulse == "quiet"), func() node {
			return html.P(text("If its holder is gone, somebody with the right to force can end it: "),
				html.Code(text("holdfast unlock --force "+words.Argument(h.Resource))), text(" shows what it would release, and asks."))
		}),
		html.Div(class("links"),
			when(force && ref != "", func() node {
				return html.Button(html.Type("button"), class("danger"), html.Data("force", ""), html.Data("resource", url.PathEscape(h.Resource)),
					html.Data("ref", ref), html.Data("token", token), html.Data("who", who), html.Data("name", words.Printable(h.Resource)), gomponents.Attr("hidden"),
					text("Release by force…"))
			}),
		),
	)
}

// vitality says whether the holder is alive. The name is alive, new, late, silent, quiet,
// endless, ended, released, over or unknown.
func (v *visit) vitality(h driver.Status) (name, says string) {
	if v.over(h) {
		return "over", "Its time is over; nobody knows whether it was renewed."
	}
	name, says = vitality(h)
	if v.old && (name == "alive" || name == "new") {
		return "unknown", "It was well when the store was seen last; nobody knows how it is now."
	}
	return name, says
}

func vitality(h driver.Status) (name, says string) {
	switch p := words.PulseOf(h); {
	case h.Released:
		return "released", "It was released, and keeps others out for a while as its holder wanted."
	case h.Left == 0:
		return "ended", "It has ended without a release."
	case p.Silent == driver.Unknown:
		return "unknown", "The store does not say when it was renewed, so nobody knows whether its holder is alive."
	case h.Left == driver.Forever && !words.Gone(h):
		return "alive", "It has no end, and its holder has renewed it lately."
	case h.Left == driver.Forever:
		return "endless", "It has no end, and nobody renews it: its holder is gone, or does not renew what has no end."
	case h.Renewed.IsZero() && p.Missed > 0:
		return "quiet", "It was never renewed: it is meant to end by itself, or its holder was killed or stopped, or cannot reach the store."
	case h.Renewed.IsZero():
		return "new", "It is not due to be renewed yet."
	case words.Gone(h):
		return "silent", "Its holder has missed " + words.Count(p.Missed, "renewal", "renewals") + ": it was killed or stopped, cannot reach the store, or does not renew it by itself."
	case p.Missed == 1:
		return "late", "Its holder has missed a renewal."
	}
	return "alive", "Its holder renews it."
}

// turn returns the place of the i-th waiter among those that are served in turn, 0 if it is
// not one of them.
func (e *entry) turn(i int) (n int) {
	if !e.Waiters[i].Fair {
		return 0
	}
	for _, p := range e.Waiters[:i+1] {
		if p.Fair {
			n++
		}
	}
	return n
}

// reason says what is in the way of the i-th waiter.
func (e *entry) reason(i int) string {
	return cmp.Or(words.Reason(e.Holds, e.Waiters, i), "nothing is in its way, its next try succeeds")
}

// waits are the cells of a waiter that stand behind those which name it.
func (v *visit) waits(e *entry, i int) node {
	p, order := e.Waiters[i], "in any order"
	if p.Fair {
		order = "in turn"
	}
	why := text(e.reason(i))
	if asked, late := words.Late(p); late {
		why = group(text("It has not asked for "), up(v.grows(asked)), text(", and its place ends in "), down(v.shrinks(p.Left)), text("."))
	}
	return group(cell("Wants it", text(words.Mode(p.Mode, p.Limit))), cell("For", up(v.grows(p.Age()))), cell("Order", text(order)), wide("Why", why))
}

// link returns the address of a resource's page, from any page.
func link(resource string) string { return "resource?" + url.Values{"name": {resource}}.Encode() }
