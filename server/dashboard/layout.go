package dashboard

import (
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"
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

// whole returns all of a page.
func (p page) whole() node {
	return html.Doctype(html.HTML(html.Lang("en"),
		html.Head(
			html.Meta(html.Charset("utf-8")),
			html.Meta(html.Name("viewport"), html.Content("width=device-width, initial-scale=1")),
			html.Meta(html.Name("color-scheme"), html.Content("light dark")),
			html.TitleEl(text(p.Title+" · Holdfast")),
			html.Link(html.Rel("stylesheet"), html.Href("app.css")),
			html.Script(html.Src("app.js"), html.Defer()),
		),
		html.Body(gomponents.If(p.Login, html.Data("login", "")),
			html.A(class("skip"), html.Href("#main"), text("Skip to the content")),
			p.top(),
			html.P(html.ID("connection"), class("notice"), html.Role("status"), gomponents.Attr("hidden")),
			html.Div(html.ID("live"), p.live()),
			forceDialog(),
		),
	))
}

func (p page) top() node {
	link := func(path, to, name string) node {
		return html.A(html.Href(to), gomponents.If(p.Here == path, html.Aria("current", "page")), text(name))
	}
	return html.Header(class("top"),
		html.A(class("brand"), html.Href("./"), html.Span(class("mark"), html.Aria("hidden", "true")), text("Holdfast")),
		html.Nav(html.Aria("label", "Pages"),
			link("/", "./", "Locks"), link("/history", "history", "History"), link("/store", "store", "Store"),
		),
		html.Div(class("who"),
			when(p.Store != "", func() node { return html.Span(text(p.Store)) }),
			when(p.Caller != "", func() node { return html.Span(text(p.Caller)) }),
			when(p.Login && p.Caller != "", func() node {
				return html.Button(html.Type("button"), class("quiet"), html.Data("sign-out", ""), gomponents.Attr("hidden"), text("Sign out"))
			}),
		),
	)
}

// live returns the part of a page that is replaced while somebody watches it.
func (p page) live() node {
	return group(p.Status.notices(), html.Main(html.ID("main"), html.TabIndex("-1"), p.Main))
}

// notices say how far the page cannot be trusted.
func (s status) notices() node {
	return group(
		when(s.Failing, func() node {
			shown := text("It has shown nothing yet.")
			if s.Seen {
				shown = group(text("Below is what it has shown before that, "), up(span{Known: true, Ms: s.AgeMs}), text(" ago."))
			} else {
				shown = group(shown, text(" "), s.next())
			}
			if s.Others {
				return html.P(html.ID("store-failing"), class("notice bad"),
					html.B(text("The store cannot be looked at")), text(", for "), up(span{Known: true, Ms: s.Since}), text(" already. "), shown,
					text(" Locks go on: it has answered another call "), up(span{Known: true, Ms: s.Answered}), text(" ago. "), text(s.Error),
				)
			}
			return html.P(html.ID("store-failing"), class("notice bad"),
				html.B(text("The store does not answer")), text(", for "), up(span{Known: true, Ms: s.Since}), text(" already. "), shown,
				text(" Nobody gets a lock through this server meanwhile; whoever reaches the store may. "), text(s.Error),
			)
		}),
		when(s.Cut, func() node {
			return html.P(html.ID("cut"), class("notice"),
				text("The store has more than this page can look at: only its first 100,000 holds and waiters are here."))
		}),
	)
}

// shortPause is a pause whose end nobody waits for.
const shortPause = 3 * time.Second

// seen says when the store was looked at.
func (s status) seen() node {
	if !s.Seen {
		return group()
	}
	return html.P(class("seen"), text("Looked "), up(span{Known: true, Ms: s.AgeMs}), text(" ago. "),
		// What fails again and again is not worth a count of seconds: the notice says it.
		when(!s.Failing || s.Pause > shortPause, s.next))
}

// next says when the store is looked at again.
func (s status) next() node {
	if s.Pause <= shortPause {
		return text("Next look in " + span{Ms: s.Pause.Milliseconds()}.text() + ".")
	}
	return group(text("Next look in "), down(span{Known: true, Ms: s.Next}),
		text(": the store rests ten times as long as a look takes, "+span{Ms: s.Pause.Milliseconds()}.text()+"."))
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
