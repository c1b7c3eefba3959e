package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"maragu.dev/gomponents/html"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/front"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/server/internal/strictjson"
	"github.com/holdfast-go/holdfast/server/sight"
)

// writePatience bounds each write.
const writePatience = 10 * time.Second

// visit is a request and its answer.
type visit struct {
	d      *Dashboard
	w      http.ResponseWriter
	r      *http.Request
	began  time.Time
	caller access.Caller
	sight  *sight.Sight  // what is shown, if anything of the store is
	age    time.Duration // of it
	old    bool          // looks fail: what is shown is of one before
	state  health.State  // of the store
}

// identified finds out who sent the request. If nobody knows, it has answered, unless the
// path is for everybody.
func (v *visit) identified() bool {
	caller, err := v.d.opts.Identify(v.r)
	if err == nil {
		v.caller = caller
		return true
	}
	if !errors.Is(err, access.ErrAnonymous) {
		v.d.opts.Logger.Error("it cannot be found out who asks for a page", "error", err)
		v.fail(http.StatusServiceUnavailable, "The server cannot find out who you are. Its log says why.")
		return false
	}
	at := strings.TrimPrefix(v.r.URL.Path, "/")
	switch {
	case at == "login" || at == "sign-in" || at == "sign-out" || at == "app.css" || at == "app.js":
		return true
	case v.d.opts.Login == nil:
		v.fail(http.StatusUnauthorized, "The server does not know who you are.")
		return false
	case v.isPart() || at == "events" || v.r.Method != http.MethodGet:
		v.fail(http.StatusUnauthorized, "You are signed out.")
		return false
	}
	// It is one of the same level, so that no other site can be the destination.
	if v.r.URL.RawQuery != "" {
		at += "?" + v.r.URL.RawQuery
	}
	v.w.Header().Set("Location", "login?"+url.Values{"next": {at}}.Encode())
	v.w.WriteHeader(http.StatusSeeOther)
	return false
}

// isPart reports whether only the part of the page is wanted that changes.
func (v *visit) isPart() bool { return v.r.Header.Get("Holdfast-Part") != "" }

// looks reports whether the caller may see the resource.
func (v *visit) looks(resource string) bool {
	return v.caller.May(access.Look, resource) || v.caller.May(access.Force, resource)
}

// seesPart reports whether the caller may see only some resources: what a page says of all
// that it shows is then said of these.
func (v *visit) seesPart() bool {
	return !v.caller.MayAll(access.Look) && !v.caller.MayAll(access.Force)
}

// see makes the sight what is shown.
func (v *visit) see(s *sight.Sight) {
	v.sight, v.began, v.state = s, time.Now(), v.d.opts.Health.Now()
	if !s.At.IsZero() {
		v.age, v.old = v.began.Sub(s.At), s.Err != nil
	}
}

// of returns the visit for what is said of the entry, which may have been read since the look.
func (v *visit) of(e *entry) *visit {
	if e.later == 0 {
		return v
	}
	of := *v
	of.age, of.old = v.age-e.later, false
	return &of
}

// show sends a page, or the part of it that changes.
func (v *visit) show(code int, title string, main ...node) {
	root := group(v.now(), html.Main(html.ID("main"), only(v.doubtful(), class("doubt")), html.TabIndex("-1"), group(main...)))
	if v.isPart() {
		v.w.Header().Set("Holdfast-Part", "1") // it is ours, and not a proxy's
	} else {
		root = v.page(title, root)
	}
	var b bytes.Buffer
	_ = root.Render(&b) // a buffer takes all
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.write(code, b.Bytes())
}

func (v *visit) write(code int, body []byte) {
	_ = http.NewResponseController(v.w).SetWriteDeadline(time.Now().Add(writePatience))
	v.w.WriteHeader(code)
	_, _ = v.w.Write(body)
}

// fail answers with an error, as a page or, to a script, as JSON.
func (v *visit) fail(code int, why string) {
	if v.r.Method == http.MethodPost {
		v.answer(code, answer{Error: why})
		return
	}
	v.show(code, http.StatusText(code), html.H1(text(http.StatusText(code))), html.P(text(why)), crumbs())
}

// busy refuses what is beyond the share of the caller for so long.
func (v *visit) busy(wait time.Duration, why string) {
	front.Pause(v.r)
	v.w.Header().Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	v.fail(http.StatusTooManyRequests, why)
}

// account is what the visit is charged to.
func (v *visit) account() budget.Account {
	return front.Account(v.d.opts.Budget, v.caller, front.AddressOf(v.r), v.r)
}

// answer is what a POST gets.
type answer struct {
	Error   string   `json:"error,omitempty"`
	Results []result `json:"results,omitempty"`
}

// result says what became of one hold.
type result struct {
	OK   bool   `json:"ok"`
	Says string `json:"says"`
}

func (v *visit) answer(code int, a answer) {
	body, _ := json.Marshal(a) // texts
	v.w.Header().Set("Content-Type", wire.JSON)
	v.write(code, body)
}

// A page sends small bodies, but for the names of as many holds as it shows.
const smallBody, manyHolds = 16 << 10, 512 << 10

// read reads what a page has sent, so many bytes at most. It reports whether that is what it
// should be.
func (v *visit) read(body any, most int64) bool {
	claim, ok := v.account().Open(budget.Bodies, most)
	if !ok {
		v.busy(time.Second, "Too much is being sent already.")
		return false
	}
	defer claim.Close()
	_ = http.NewResponseController(v.w).SetReadDeadline(time.Now().Add(writePatience))
	var b bytes.Buffer
	_, err := b.ReadFrom(http.MaxBytesReader(v.w, v.r.Body, most))
	if err == nil {
		err = strictjson.Decode(b.Bytes(), body)
	}
	if err != nil {
		v.fail(http.StatusBadRequest, "The page sent something else than the server expects. Load it again.")
	}
	return err == nil
}
