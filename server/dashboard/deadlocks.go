package dashboard

import (
	"net/http"
	"slices"
	"time"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
	"github.com/holdfast-go/holdfast/server/sight"
	"github.com/holdfast-go/holdfast/server/words"
)

// deadlocksBody is what the page of deadlocks shows.
type deadlocksBody struct {
	Deadlocks []deadlockView
	Further   int // that are not shown
	Hidden    int // of resources that the caller may not see
	Looked    bool
	Old       bool
}

type deadlockView struct {
	Text string
	Path []holdView // the first ones
	More int        // that are not shown
}

// maxLinks is how many holds of a deadlock are shown.
const maxLinks = 10

func (d *Dashboard) deadlocks(v *visit) {
	s, age, ok := v.look()
	if !ok {
		return
	}
	body := deadlocksBody{Looked: s.Queue && !s.Cut && !s.Tangled, Old: v.old}
	body.Deadlocks, body.Further, body.Hidden = v.deadlockViews(s, age)
	status := v.statusOf(s)
	v.show(http.StatusOK, page{Title: "Deadlocks", Status: status, Main: group(
		body.title(), status.seen(),
		when(len(s.Deadlocks) == sight.MaxDeadlocks, func() node {
			return html.P(class("more"), text("There may be more: no look finds more than that."))
		}),
		each(body.Deadlocks, deadlockView.section), more(body.Further, "more are not shown."), more(body.Hidden, "more are among resources that are not yours to see."),
		when(!s.Queue, func() node { return empty(text("This store keeps no queue: it does not know who waits for whom.")) }),
		when(s.Cut, func() node {
			return empty(text("There is more in the store than this page can look at, so it looks for none."))
		}),
		when(s.Tangled, func() node {
			return empty(text("So many wait for one another that the search was given up. Programs look among fewer, and find their own."))
		}),
	)})
}

func (b *deadlocksBody) title() node {
	switch n := len(b.Deadlocks) + b.Further + b.Hidden; {
	case n > 0:
		return html.H1(class("summary stuck"), text(words.Count(n, "deadlock", "deadlocks")))
	case b.Looked && b.Old:
		return group(html.H1(class("summary watch"), text("Nobody knows of deadlocks now")), empty(text("There was none when the store was seen last.")))
	case b.Looked:
		return group(html.H1(class("summary fine"), text("No deadlock")), empty(text("No holders wait for each other.")))
	}
	return html.H1(class("summary watch"), text("Nobody knows of deadlocks"))
}

func (d deadlockView) section() node {
	return html.Section(
		html.P(class("notice bad"), text(d.Text)),
		html.P(text("If that lasts, the one that came last gives up by itself in some seconds, if it waits by Holdfast: its Lock returns ErrDeadlock, and "),
			html.Code(text("holdfast run")), text(" exits with 75. If none does, release one of these by force.")),
		each(d.Path, func(h holdView) node { return group(html.H3(resourceLink(h.Resource)), h.article()) }),
		more(d.More, "more wait for each other with these."),
	)
}

// seesAll reports whether the caller may see all of a deadlock. A page asks for each resource
// of it.
func (v *visit) seesAll(path []deadlock.Link) bool {
	if len(path) == 0 {
		return true
	}
	sees, known := v.sees[&path[0]]
	if !known {
		sees = !slices.ContainsFunc(path, func(l deadlock.Link) bool { return !v.looks(l.Holds.Resource) || !v.looks(l.WaitsFor) })
		if v.sees == nil {
			v.sees = make(map[*deadlock.Link]bool)
		}
		v.sees[&path[0]] = sees
	}
	return sees
}

// deadlockViews returns the first deadlocks that the caller may see, how many others of these
// there are, and how many that it may not see.
func (v *visit) deadlockViews(s *sight.Sight, age time.Duration) (views []deadlockView, further, hidden int) {
	for _, path := range s.Deadlocks {
		switch {
		case !v.seesAll(path):
			hidden++
			continue
		case len(views) == maxTroubles:
			further++
			continue
		}
		view := deadlockView{Text: v.deadlockText(path)}
		view.More = max(len(path)-maxLinks, 0)
		for _, l := range path[:len(path)-view.More] {
			view.Path = append(view.Path, v.holdView(l.Holds, age))
		}
		views = append(views, view)
	}
	return views, further, hidden
}

// deadlockText says who waits for whom, with what the caller may not see left out.
func (v *visit) deadlockText(path []deadlock.Link) string {
	if !v.seesAll(path) {
		return "Some of its resources are not yours to see."
	}
	return words.Deadlock(path, func(h driver.Status) string { return words.Printable(words.Holder(h)) })
}
