package dashboard

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/server/words"
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

// only is the node if it is wanted, and else nothing.
func only(wanted bool, n node) node { return gomponents.If(wanted, n) }

// each makes a node of each element.
func each[T any](all []T, make func(T) node) node { return gomponents.Map(all, make) }

// class is the attribute of classes.
func class(names string) node { return html.Class(names) }

// says is a text in which each % is one of the parts, in their order.
func says(format string, parts ...node) node {
	var all []node
	for i, piece := range strings.Split(format, "%") {
		if i > 0 {
			all = append(all, parts[i-1])
		}
		all = append(all, text(piece))
	}
	return group(all...)
}

// name is a text of a user. Marks in it that turn the direction of writing stay in it.
func name(s string) node { return gomponents.El("bdi", text(words.Printable(s))) }

// quoted is what a user has said, if it is something.
func quoted(s string) node { return only(s != "", says(" “%”", name(s))) }

// up is a duration that grows, and down one that shrinks, while the page is shown.
func up(d time.Duration) node { return counted("up", d) }

func down(d time.Duration) node { return counted("down", d) }

// left is what a hold has left, unless it is renewed. A page that is not loaded again counts it
// down, and says then that it is over.
func left(d time.Duration) node {
	if d == 0 {
		return text(noneLeft)
	}
	return counted("down", d, html.Data("over", noneLeft))
}

const noneLeft = "none, unless it was renewed"

func counted(way string, d time.Duration, more ...node) node {
	switch d {
	case driver.Unknown:
		return text("–")
	case driver.Forever:
		return text("never")
	}
	return html.Time(html.Data(way, strconv.FormatInt(d.Milliseconds(), 10)), group(more...), text(inSeconds(d)))
}

// inSeconds says a duration without what is less than a second of it.
func inSeconds(d time.Duration) string {
	if d < time.Second {
		return "0 s"
	}
	return words.Duration(d.Truncate(time.Second))
}

// resourceLink is the name of a resource, which leads to its page.
func resourceLink(resource string) node {
	return html.A(class("resource"), html.Href(link(resource)), name(resource))
}

// badge says how much something hurts.
func badge(l level) node {
	return html.Span(class("badge "+l.String()), text([...]string{"fine", "watch", "trouble", "stuck"}[l]))
}

// button is one that needs the script, which finds it by the attribute.
func button(attribute, value, says string) node {
	return html.Button(html.Type("button"), class("plain scripted"), html.Data(attribute, value), text(says))
}

// danger leads to the dialog that asks whether to release what was chosen.
func danger(chosen url.Values, label, says string) node {
	to := html.Href("release?" + chosen.Encode())
	return html.A(class("button danger"), to, html.Data("release", ""), html.Aria("label", label), text(says))
}

// table is a table that becomes a list where the window is narrow.
func table(label string, titles []string, rows node) node {
	head := each(titles, func(title string) node { return html.Th(html.Scope("col"), text(title)) })
	return html.Div(class("scroll"), html.TabIndex("0"), html.Role("region"), html.Aria("label", label),
		html.Table(html.THead(html.Tr(head)), html.TBody(rows)))
}

// cell is a cell of a table. In the list it says itself what it is, and nothing if the label is
// empty. With class("wide") it has a line of its own there.
func cell(label string, is ...node) node { return html.Td(html.Data("label", label), group(is...)) }

// section is a heading with what is below it.
func section(id, heading string, rest ...node) node {
	return html.Section(html.Data("key", "s-"+id), html.Aria("labelledby", id),
		html.H2(html.ID(id), text(heading)), group(rest...))
}

// soft is what is less important than the rest.
func soft(is ...node) node { return html.P(class("soft"), group(is...)) }

// more says that not all is shown.
func more(n int, says string) node { return only(n > 0, soft(text(strconv.Itoa(n)+" "+says))) }

func crumbs() node { return soft(html.A(html.Href("./"), text("All locks"))) }

// page returns all of a page. The part that is replaced while somebody watches it is live.
func (v *visit) page(title string, live node) node {
	to := func(path, to, says string) node {
		return html.A(html.Href(to), only(v.r.URL.Path == path, html.Aria("current", "page")), text(says))
	}
	return html.Doctype(html.HTML(html.Lang("en"),
		html.Head(
			html.Meta(html.Charset("utf-8")),
			html.Meta(html.Name("viewport"), html.Content("width=device-width, initial-scale=1")),
			html.Meta(html.Name("color-scheme"), html.Content("light dark")),
			html.TitleEl(text(title+" · Holdfast")),
			html.Link(html.Rel("stylesheet"), html.Href("app.css")),
			html.Script(html.Src("app.js"), html.Defer()),
		),
		html.Body(only(v.d.opts.Login != nil, html.Data("login", "")),
			html.A(class("skip"), html.Href("#main"), text("Skip to the content")),
			html.Header(
				html.A(class("brand"), html.Href("./"), html.Span(class("mark"), html.Aria("hidden", "true")), text("Holdfast")),
				html.Nav(html.Aria("label", "Pages"), to("/", "./", "Locks"), to("/history", "history", "History")),
				v.who()),
			html.P(html.ID("connection"), class("notice"), html.Role("status"), gomponents.Attr("hidden")),
			html.Div(html.ID("live"), live),
			html.Dialog(html.ID("dialog"), html.Aria("labelledby", "release")),
			v.foot(),
		),
	))
}

func (v *visit) who() node {
	if v.caller == nil || v.caller.Name() == "" {
		return group()
	}
	return html.Div(class("who"), html.Span(text(v.caller.Name())),
		only(v.d.opts.Login != nil, button("sign-out", "", "Sign out")))
}

// foot says which server this is.
func (v *visit) foot() node {
	if v.caller == nil {
		return group()
	}
	o := v.d.opts
	return html.Footer(text(cmp.Or(o.Version, "Holdfast")),
		says(" on %, up for %. ", name(cmp.Or(v.d.host, "a host without a name")), up(time.Since(v.d.since))),
		only(o.Name != "", says("The store is %.", name(o.Name))))
}

// line is something that each page says first, of the store and of what is shown.
type line struct {
	level level
	says  node
}

// healthLevels are those of the levels of a store's health.
var healthLevels = map[health.Level]level{
	health.Degraded: watch, health.Ending: hurts, health.Starting: hurts, health.Failing: stuck, health.Replaced: stuck,
}

// lines returns what the server knows now, and how far what is shown can be trusted.
func (v *visit) lines() (all []line) {
	add := func(is bool, l level, says node) {
		if is {
			all = append(all, line{l, says})
		}
	}
	s := v.sight
	if s == nil {
		return nil
	}
	before, after := v.state.Parts()
	add(v.state.Level != health.OK, healthLevels[v.state.Level],
		group(text(before), only(after != "", up(v.state.At.Sub(v.state.Since))), text(after),
			only(v.state.Level == health.Replaced && v.d.opts.History != nil,
				says(" The % has who held locks of the old store.", html.A(html.Href("history"), text("history"))))))
	next, rests := down(max(s.Next.Sub(v.began), 0)), s.Pause > shortPause
	if s.Err != nil {
		seen := text(" already. Nothing was seen yet.")
		if !s.At.IsZero() {
			seen = says(" already. Below is what was seen % ago.", up(v.age))
		}
		why, level := whyBlind(s.Err)
		add(true, level, group(text(why+" That is so for "), up(v.began.Sub(s.Failing)), seen,
			only(rests, says(" The next look is in %.", next))))
	}
	o := v.d.opts
	add(o.AuditErr != nil && o.AuditErr() != nil, stuck, text("The audit cannot be written: the server's log says why. "+
		"Locks go on. Releases by force go on only as long as there is room left that was kept for them."))
	add(o.AuthErr != nil && v.caller.MayAll(access.Force) && o.AuthErr() != nil, hurts, text("The auth file is broken: the server's "+
		"log says why. The rules before it stay in force, also for those whose rights were taken away."))
	add(o.History != nil && o.History.State().Err != nil, watch,
		text("The history is not written: the server's log says why. Locks go on."))
	add(s.Cut, watch, text("The store has more than this page can look at: only its first 100,000 holds and waiters are here."))
	switch {
	case s.Err != nil || s.At.IsZero():
	case rests:
		level := fine
		if v.age > longRest {
			level = watch // much may have changed
		}
		add(true, level, says("This is how it was %. The next look is in %: the store rests ten times as long as a look takes, "+
			inSeconds(s.Pause)+".", html.B(says("% ago", up(v.age))), next))
	default:
		add(true, fine, says("Looked % ago. Next look in "+inSeconds(s.Pause)+".", up(v.age)))
	}
	return all
}

// shortPause is a pause whose end nobody waits for, and longRest the age of a look that no longer
// shows how it is.
const shortPause, longRest = 3 * time.Second, 30 * time.Second

// whyBlind says why a look has failed. What a store says of itself is for the log: it may have
// an address or the IDs of others.
func whyBlind(err error) (string, level) {
	switch {
	case errors.Is(err, driver.ErrDamaged):
		return "The store cannot be looked at: a record in it cannot be understood, as the server's log says.", hurts
	case health.FailureOf(err) == health.Silent:
		return "A look at the store was not answered in time: it is slow, or does not answer at all.", watch
	}
	return "The store cannot be looked at: the server's log says why.", hurts
}

// worst returns how much the worst of the lines hurts.
func (v *visit) worst() (worst level) {
	for _, l := range v.lines() {
		worst = max(worst, l.level)
	}
	return worst
}

// doubtful reports whether nothing is to be shown as if all were well: locks are refused, or
// looks fail.
func (v *visit) doubtful() bool { return v.old || healthLevels[v.state.Level] >= hurts }

// now is the first line of the page.
func (v *visit) now() node {
	return html.Section(html.ID("now"), html.Aria("label", "How the store is"),
		each(v.lines(), func(l line) node { return html.P(class("line "+l.level.String()), l.says) }))
}
