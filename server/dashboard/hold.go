package dashboard

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

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

// hold says in sentences who holds a resource, until when, and whether the holder is alive. It
// is the same wherever a hold is shown: on the first page and on that of the resource, where it
// acts, by a link to release it by force, and in the dialog for that.
func (v *visit) hold(h driver.Status, acts bool) node {
	ref, force := wire.RefOf(h.HoldID), v.caller.May(access.Force, h.Resource)
	pulse, why := vitality(h)
	until, renewed := says("Time left: %", left(v.shrinks(h.Left))), group()
	switch {
	case v.over(h):
		pulse, why = "over", ""
	case v.old && (pulse == "alive" || pulse == "new"):
		pulse, why = "unknown", "Nobody knows how it is now."
	}
	switch {
	case h.Left == driver.Forever:
		until = text("It has no end")
	case h.Left == driver.Unknown:
		until = text("Nobody knows when it ends")
	case h.Left == 0:
		until = text("It has ended")
	}
	if ago := v.grows(h.RenewedAgo()); ago != driver.Unknown {
		renewed = says("; renewed % ago", up(ago))
	}
	return html.Div(class("hold"), html.Data("key", ref), only(acts, html.ID(ref)),
		html.P(searchLink(h.Owner, h.Host, words.Holder(h)), says(" % holds it ", html.Span(class("pulse "+pulse), text(pulse))),
			says(words.Mode(h.Mode, h.Limit)+", for %. %%. ", up(v.grows(h.Age())), until, renewed), text(why),
			only(h.TakeoverDelay > 0, text(" After its end it keeps others out for "+words.Duration(h.TakeoverDelay)+".")),
			quoted(h.Comment),
			only(!force && words.Gone(h), says(" Who may force can end it: %.",
				html.Code(text("holdfast unlock --force "+words.Argument(h.Resource)))))),
		html.P(class("soft"),
			says("For a ticket: % ", html.A(html.Href(link(h.Resource)+"#"+ref), html.Code(text(ref)))),
			button("copy", "", "Copy"),
			only(force, says(" Token %", html.Span(class("number"), text(strconv.FormatUint(h.Token, 10))))),
			only(acts, v.releaseLink(h.Resource, ref))),
	)
}

// vitality says whether the holder is alive, as far as its renewals show. The name is alive,
// new, late, silent, quiet, endless, ended, released or unknown.
func vitality(h driver.Status) (name, says string) {
	switch p := words.PulseOf(h); {
	case h.Released:
		return "released", "It was released, and keeps others out for a while as its holder wanted."
	case h.Left == 0:
		return "ended", "Nobody has released it."
	case p.Silent == driver.Unknown:
		return "unknown", "The store does not say when it was renewed, so nobody knows whether its holder is alive."
	case h.Left == driver.Forever && words.Gone(h):
		return "endless", "Nobody renews it: its holder is gone, or does not renew what has no end. " +
			"Only its holder ends it, or a release by force."
	case h.Left == driver.Forever:
		return "alive", ""
	case h.Renewed.IsZero() && p.Missed > 0:
		return "quiet", "It was never renewed: it is meant to end by itself, or its holder was killed or stopped, " +
			"or cannot reach the store."
	case h.Renewed.IsZero():
		return "new", "It is not due to be renewed yet."
	case words.Gone(h):
		return "silent", "Its holder has missed " + words.Count(p.Missed, "renewal", "renewals") +
			": it was killed or stopped, cannot reach the store, or does not renew it by itself."
	case p.Missed == 1:
		return "late", "Its holder has missed a renewal."
	}
	return "alive", ""
}

// waiter says in sentences who waits, for how long, and why.
func (v *visit) waiter(e *entry, i int) node {
	p, order, late := e.Waiters[i], "in any order", group()
	if p.Fair {
		order = "in turn"
	}
	if asked, is := words.Late(p); is {
		late = says(" It has not asked for %, and its place ends in %.", up(v.grows(asked)), down(v.shrinks(p.Left)))
	}
	why := cmp.Or(words.Reason(e.Holds, e.Waiters, i), "nothing is in its way, its next try succeeds")
	return says("% has waited for % to hold it "+words.Mode(p.Mode, p.Limit)+", "+order+": "+why+".%",
		searchLink(p.Owner, p.Host, words.Waiter(p)), up(v.grows(p.Age())), late)
}

// link returns the address of a resource's page, from any page.
func link(resource string) string { return "resource?" + url.Values{"name": {resource}}.Encode() }

// searchLink leads from a holder or waiter to all that has its owner, or else its host.
func searchLink(owner, host, says string) node {
	return html.A(html.Href("./?"+url.Values{"q": {cmp.Or(owner, host)}}.Encode()), html.B(name(says)))
}

// releaseLink leads to the dialog that asks whether to release the hold, or all that the
// resource has if the ref is empty.
func (v *visit) releaseLink(resource, ref string) node {
	if !v.caller.May(access.Force, resource) {
		return group()
	}
	of := url.Values{"name": {resource}}
	if ref != "" {
		of.Set("ref", ref)
	}
	return danger(of, "Release by force: "+words.Printable(resource), "Release…")
}
