package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/words"
)

// actPatience is how long the store may take for all that a page asks it to do.
const actPatience = 15 * time.Second

// reasons are those that a page proposes.
var reasons = []string{"Its host is gone", "Its program hangs", "Its program was killed", "It was locked by mistake"}

// releasePage asks whether to release what the address names: a hold by its resource and ref,
// all holds of a resource, or all whose holders say that they run on a host. Pages show it in
// a dialog.
func (d *Dashboard) releasePage(v *visit) {
	if v.blind() {
		return
	}
	query := v.r.URL.Query()
	host, ref, resource := query.Get("host"), query.Get("ref"), "RESOURCE"
	if host == "" {
		resource = words.Argument(query.Get("name"))
	}
	var found []node
	n := 0
	for _, e := range d.boardOf(v.sight).entries {
		holds := e.Holds
		switch {
		case !v.looks(e.Resource), host == "" && e.Resource != query.Get("name"):
			continue
		case host != "":
			holds = e.of(host)
		}
		for _, h := range holds {
			is := wire.RefOf(h.HoldID)
			if ref != "" && ref != is {
				continue
			}
			if n++; n <= maxRows {
				names := url.Values{"resource": {h.Resource}, "ref": {is}, "token": {strconv.FormatUint(h.Token, 10)}}
				box := html.Input(html.Type("checkbox"), html.Value(names.Encode()), html.Aria("label", "Release "+is),
					only(host != "" || ref != "" || len(holds) == 1, html.Checked()))
				became := html.P(class("result"), html.Role("status"))
				found = append(found, html.Li(box, html.Div(html.H2(name(h.Resource)), v.of(e).hold(h, false), became)))
			}
		}
	}
	if n == 0 {
		v.show(http.StatusOK, "Release by force", html.H1(html.ID("release"), text("Nothing to release")),
			html.P(text("That hold has ended meanwhile.")), closing(group()))
		return
	}
	title := "Release by force"
	if n > 1 {
		title = "Release " + strconv.Itoa(n) + " holds by force"
	}
	v.show(http.StatusOK, title, html.H1(html.ID("release"), text(title)),
		only(host != "", html.P(says("These holders say that they run on %. Nobody has checked that.", html.B(name(host))))),
		html.Form(html.ID("force"),
			html.Ul(class("chosen"), group(found...)), more(n-maxRows, "more are not listed, and stay."),
			html.P(text("This does not stop the old holder: it may go on until its next renewal tells it that the lock is gone. "+
				"Whoever waits next may get the lock at once.")),
			html.Label(html.For("reason"), text("Why?")),
			html.Input(html.ID("reason"), html.List("reasons"), html.MaxLength("400"), html.Required(), html.AutoComplete("off")),
			html.DataList(html.ID("reasons"), each(reasons, func(s string) node { return html.Option(html.Value(s)) })),
			html.P(class("error"), html.Role("alert"), gomponents.Attr("hidden")),
			closing(html.Button(html.Type("submit"), class("danger scripted"), text("Release"))),
		),
		html.NoScript(soft(says("This needs JavaScript. % does it without.", html.Code(text("holdfast unlock --force "+resource))))),
	)
}

// closing is the row of buttons of a dialog.
func closing(act node) node {
	return html.Div(class("buttons"), button("close", "", "Cancel"), act)
}

// force releases holds one by one, each of which its ref and its token name: a page that is old
// names holds that have gone, and never their successors. It says what became of each.
func (d *Dashboard) force(v *visit) {
	var body struct {
		Reason string `json:"reason"`
		Holds  []struct {
			Resource string `json:"resource"`
			Ref      string `json:"ref"`
			Token    string `json:"token"`
		} `json:"holds"`
	}
	if !v.read(&body, manyHolds) {
		return
	}
	body.Reason = strings.TrimSpace(body.Reason)
	switch wait, ok := v.account().Spend(budget.Requests, float64(len(body.Holds))); {
	case !ok:
		v.busy(wait, "You have released too many holds. Wait a moment.")
		return
	case len(body.Holds) == 0 || len(body.Holds) > maxRows:
		v.fail(http.StatusBadRequest, "Choose from 1 to "+strconv.Itoa(maxRows)+" holds.")
		return
	case body.Reason == "":
		v.fail(http.StatusBadRequest, "Say why.")
		return
	case driver.Details{Comment: body.Reason}.Validate() != nil:
		v.fail(http.StatusBadRequest, "The reason is too long, or is no text.")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), actPatience)
	defer cancel()
	var results []result
	var failed error // the last one
	released, failures := map[string]bool{}, 0
	for _, h := range body.Holds {
		token, _ := strconv.ParseUint(h.Token, 10, 64) // 0 is refused
		q := server.Force{Resource: h.Resource, Ref: h.Ref, Token: token, Reason: body.Reason}
		r, err := d.forcer.Release(ctx, v.r, v.caller, v.account(), q)
		if err != nil && !slices.ContainsFunc([]error{server.ErrDenied, server.ErrBusy, driver.ErrInvalid}, func(is error) bool { return errors.Is(err, is) }) {
			failed, failures = err, failures+1
		}
		results = append(results, resultOf(r, err))
		released[h.Resource] = released[h.Resource] || err == nil
	}
	if failed != nil {
		d.opts.Logger.Warn("releases by force failed", "count", failures, "error", failed)
	}
	for resource, is := range released { // what a page shows next is no older than that
		if is {
			_, _ = d.lookAt(ctx, resource) // if that fails, the next look shows it
		}
	}
	v.answer(http.StatusOK, answer{Results: results})
}

func resultOf(r driver.ReleaseResult, err error) result {
	switch {
	case errors.Is(err, server.ErrDenied):
		return result{Says: "You have no right to release this by force."}
	case errors.Is(err, driver.ErrInvalid):
		return result{Says: "The page named no hold. Load it again."}
	case errors.Is(err, server.ErrBusy):
		return result{Says: "You have looked at too much. Nothing was done. Wait a moment."}
	case errors.Is(err, server.ErrNoAudit):
		return result{Says: "The server cannot write its audit, and does nothing by force without it."}
	case errors.Is(err, server.ErrForceUnknown):
		return result{Says: "The store did not answer: the hold may be released, now or in a moment. Look again."}
	case err != nil:
		return result{Says: "The store did not answer. Nothing was done."}
	case !r.Found:
		return result{true, "That hold has ended by itself meanwhile. Nothing was done."}
	}
	return result{true, "Released. Its holder may go on until its next renewal tells it."}
}

// lookNow reads one resource from the store, whatever the store rests. A caller may do that
// once a second.
func (d *Dashboard) lookNow(v *visit) {
	var body struct {
		Resource string `json:"resource"`
	}
	if !v.read(&body, smallBody) {
		return
	}
	switch {
	case driver.ValidResource(body.Resource) != nil || server.Reserved(body.Resource):
		v.fail(http.StatusBadRequest, "The page named no resource. Load it again.")
		return
	case !v.looks(body.Resource):
		v.fail(http.StatusForbidden, "You have no right to look at this resource.")
		return
	}
	if wait, ok := v.account().Spend(budget.Looks, 1); !ok {
		v.busy(wait, "You have looked just now. Wait a second.")
		return
	}
	if wait, ok := v.account().Spend(budget.Reads, 1); !ok {
		v.busy(wait, "You have looked at too much. Wait a moment.")
		return
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), actPatience)
	defer cancel()
	s, err := d.lookAt(ctx, body.Resource)
	if err != nil {
		d.opts.Logger.Warn("a look at one resource failed", "resource", body.Resource, "error", err)
		v.fail(http.StatusServiceUnavailable, "The store did not answer. Look at the first line of the page.")
		return
	}
	v.account().Correct(budget.Reads, float64(len(s.Holds)+len(s.Waiters)))
	v.answer(http.StatusOK, answer{})
}
