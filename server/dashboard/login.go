package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/server/access"
)

// loginPage serves the form to sign in.
func (d *Dashboard) loginPage(v *visit) {
	v.show(http.StatusOK, "Sign in",
		html.H1(text("Sign in")),
		html.Form(html.ID("sign-in"), class("login"), html.Data("next", d.next(v.r.URL.Query().Get("next"))),
			html.Label(html.For("token"), text("Your token, as "), html.Code(text("holdfast token")), text(" has made it")),
			html.Input(html.ID("token"), html.Type("password"), html.AutoComplete("current-password"), html.Required()),
			html.P(class("error"), html.Role("alert"), gomponents.Attr("hidden")),
			html.Div(class("buttons"), html.Button(html.Type("submit"), text("Sign in"))),
		),
		html.NoScript(soft(text("Signing in needs JavaScript. Without it, show a client certificate instead."))),
	)
}

// next returns where to go after the sign-in: a page of this Dashboard, and no other site.
func (d *Dashboard) next(to string) string {
	path, query, _ := strings.Cut(to, "?")
	if at, ok := d.routes["/"+path]; !ok || !at.page {
		return "./"
	}
	if path == "" {
		path = "./"
	}
	if query != "" {
		path += "?" + query
	}
	return path
}

func (d *Dashboard) signIn(v *visit) {
	var body struct {
		Token string `json:"token"`
	}
	if !v.read(&body, smallBody) {
		return
	}
	err := d.opts.Login.SignIn(v.w, v.r, strings.TrimSpace(body.Token))
	switch {
	case errors.Is(err, ErrTooOften):
		v.w.Header().Set("Retry-After", "60")
		v.fail(http.StatusTooManyRequests, "Too many tries from this address. Wait a minute.")
	case errors.Is(err, access.ErrAnonymous):
		v.fail(http.StatusUnauthorized, "No caller has this token.")
	case err != nil:
		d.opts.Logger.Error("nobody can sign in", "error", err)
		v.fail(http.StatusServiceUnavailable, "The server cannot find out whose token this is. Its log says why.")
	default:
		v.answer(http.StatusOK, answer{})
	}
}

func (d *Dashboard) signOut(v *visit) {
	d.opts.Login.SignOut(v.w)
	v.answer(http.StatusOK, answer{})
}
