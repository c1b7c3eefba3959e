package dashboard

import (
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/server/sight"
)

// Pages are made of gomponents, which escapes all texts and attributes. The templates of Go's
// library would make each program that can show a page larger by a half: they call methods by
// their names, so the linker leaves no method out.

// node is a part of a page.
type node = gomponents.Node

// text is a text, escaped.
func text(s string) node { return gomponents.Text(s) }

// group is nodes without an element around them.
func group(nodes ...node) node { return gomponents.Group(nodes) }

// when makes a node only if it is wanted.
func when(wanted bool, make func() node) node { return gomponents.Iff(wanted, make) }

// each makes a node of each element.
func each[T any](all []T, make func(T) node) node { return gomponents.Map(all, make) }

// class is the attribute of classes.
func class(names string) node { return html.Class(names) }

// page returns all of a page. The part that is replaced while somebody watches it is live.
func (v *visit) page(title string, live node) node {
	return html.Doctype(html.HTML(html.Lang("en"),
		html.Head(
			html.Meta(html.Charset("utf-8")),
			html.Meta(html.Name("viewport"), html.Content("width=device-width, initial-scale=1")),
			html.Meta(html.Name("color-scheme"), html.Content("light dark")),
			html.TitleEl(text(title+" · Holdfast")),
			html.Link(html.Rel("stylesheet"), html.Href("app.css")),
			html.Script(html.Src("app.js"), html.Defer()),
		),
		html.Body(gomponents.If(v.d.opts.Login != nil, html.Data("login", "")),
			html.A(class("skip"), html.Href("#main"), text("Skip to the content")),
			v.top(),
			html.P(html.ID("connection"), class("notice"), html.Role("status"), gomponents.Attr("hidden")),
			html.Div(html.ID("live"), live),
			forceDialog(),
		),
	))
}

func (v *visit) top() node {
	link := func(path, to, name string) node {
		return html.A(html.Href(to), gomponents.If(v.r.URL.Path == path, html.Aria("current", "page")), text(name))
	}
	store, caller := "", ""
	if v.caller != nil {
		store, caller = v.d.opts.Name, v.caller.Name()
	}
	return html.Header(class("top"),
		html.A(class("brand"), html.Href("./"), html.Span(class("mark"), html.Aria("hidden", "true")), text("Holdfast")),
		html.Nav(html.Aria("label", "Pages"),
			link("/", "./", "Locks"), link("/history", "history", "History"),
		),
		html.Div(class("who"),
			when(store != "", func() node { return html.Span(text(store)) }),
			when(caller != "", func() node { return html.Span(text(caller)) }),
			when(v.d.opts.Login != nil && caller != "", func() node {
				return html.Button(html.Type("button"), class("quiet"), html.Data("sign-out", ""), gomponents.Attr("hidden"), text("Sign out"))
			}),
		),
	)
}

// notices say how far the page cannot be trusted.
func (v *visit) notices(s *sight.Sight) node {
	if s == nil {
		return group()
	}
	return group(
		when(v.d.opts.AuditErr != nil && v.d.opts.AuditErr() != nil, auditTrouble),
		when(s.Err != nil, func() node {
			shown := group(text("It has shown nothing yet. "), v.next(s))
			if !s.At.IsZero() {
				shown = group(text("Below is what it has shown before that, "), up(v.age), text(" ago."))
			}
			since, answered := v.failing(s)
			says, locks := "The store does not answer", text(" Nobody gets a lock through this server meanwhile; whoever reaches the store may. ")
			if answered != driver.Unknown {
				says, locks = "The store cannot be looked at", group(text(" Locks go on: it has answered another call "), up(answered), text(" ago. "))
			}
			return html.P(html.ID("store-failing"), class("notice bad"),
				html.B(text(says)), text(", for "), up(since), text(" already. "), shown, locks, text(reasonOf(s.Err)))
		}),
		when(s.Cut, func() node {
			return html.P(html.ID("cut"), class("notice"),
				text("The store has more than this page can look at: only its first 100,000 holds and waiters are here."))
		}),
	)
}

// failing returns for how long the store has failed if looks fail, and how long ago it has
// answered another call since, or driver.Unknown.
func (v *visit) failing(s *sight.Sight) (since, answered time.Duration) {
	began, answered := s.Failing, driver.Unknown
	if l := v.d.opts.Health; l != nil {
		state := l.Now()
		if ago := v.began.Sub(state.Answered); state.Answered.After(began) && ago < lately {
			answered = ago
		}
		if state.Level == health.Failing && state.Since.Before(began) { // it did not answer others before it was looked at
			began = state.Since
		}
	}
	return v.began.Sub(began), answered
}

// shortPause is a pause whose end nobody waits for.
const shortPause = 3 * time.Second

// seen says when the store was looked at.
func (v *visit) seen(s *sight.Sight) node {
	if s.At.IsZero() {
		return group()
	}
	return html.P(class("seen"), text("Looked "), up(v.age), text(" ago. "),
		// What fails again and again is not worth a count of seconds: the notice says it.
		when(s.Err == nil || s.Pause > shortPause, func() node { return v.next(s) }))
}

// next says when the store is looked at again.
func (v *visit) next(s *sight.Sight) node {
	if s.Pause <= shortPause {
		return text("Next look in " + inSeconds(s.Pause) + ".")
	}
	return group(text("Next look in "), down(max(s.Next.Sub(v.began), 0)),
		text(": the store rests ten times as long as a look takes, "+inSeconds(s.Pause)+"."))
}

// forceDialog asks for the reason of a release by force.
func forceDialog() node {
	return html.Dialog(html.ID("force"), html.Aria("labelledby", "force-title"),
		html.Form(html.Method("dialog"),
			html.H2(html.ID("force-title"), text("Release by force")),
			html.P(text("This ends the hold of "), html.B(html.Data("who", "")), text(" on "), html.Code(html.Data("resource", "")),
				text(". Whoever waits next may get the lock at once.")),
			html.P(text("The old holder is not stopped by this. It may go on until its next renewal tells it that the lock is gone.")),
			html.Label(html.For("reason"), text("Why?")),
			html.Textarea(html.ID("reason"), html.Rows("2"), html.MaxLength("400"), html.Required()),
			html.P(class("error"), html.Role("alert"), gomponents.Attr("hidden")),
			html.Div(class("buttons"),
				html.Button(html.Type("submit"), html.Value("cancel"), class("quiet"), html.FormNoValidate(), text("Cancel")),
				html.Button(html.Type("button"), class("danger"), html.Data("confirm", ""), text("Release")),
			),
		),
	)
}
