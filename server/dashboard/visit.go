package dashboard

import (
	"bytes"
	"context"
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
	"github.com/holdfast-go/holdfast/server/sight"
)

const (
	// lookPatience is how long a page waits for a look at the store before it shows what was
	// seen before.
	lookPatience = 3 * time.Second
	// lately is how long ago an answer of the store says that it answers now. Looks that fail
	// do not say that it does not: they ask for much.
	lately = 30 * time.Second
	// writePatience bounds each write.
	writePatience = 10 * time.Second
)

// visit is a request and its answer.
type visit struct {
	d      *Dashboard
	w      http.ResponseWriter
	r      *http.Request
	began  time.Time
	caller access.Caller
	age    time.Duration // of what is shown
	old    bool          // looks fail: what is shown is of one before
	number uint64        // of the sight
	leave  func()        // gives the turn to make a page to another visit, once it has it
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
	switch v.r.URL.Path {
	case "/login", "/sign-in", "/sign-out", "/app.css", "/app.js":
		return true
	}
	if v.d.opts.Login == nil {
		v.fail(http.StatusUnauthorized, "The server does not know who you are.")
		return false
	}
	if v.isPart() || v.r.URL.Path == "/events" || v.r.Method != http.MethodGet {
		v.fail(http.StatusUnauthorized, "You are signed out.")
		return false
	}
	// It is one of the same level, so that no other site can be the destination.
	at := strings.TrimPrefix(v.r.URL.Path, "/")
	if v.r.URL.RawQuery != "" {
		at += "?" + v.r.URL.RawQuery
	}
	v.w.Header().Set("Location", "login?"+url.Values{"next": {at}}.Encode())
	v.w.WriteHeader(http.StatusSeeOther)
	return false
}

// isPart reports whether only the part of the page is wanted that changes.
func (v *visit) isPart() bool { return v.r.Header.Get("Holdfast-Part") != "" }

// sight returns what the store has shown last. It waits a moment for it to be new.
func (v *visit) sight() *sight.Sight {
	ctx, cancel := context.WithTimeout(v.r.Context(), lookPatience)
	defer cancel()
	s, err := v.d.looker.Now(ctx)
	if err != nil {
		s = v.d.looker.Last()
	}
	v.enter()
	v.began, v.number = time.Now(), s.Number
	if !s.At.IsZero() {
		v.age, v.old = v.began.Sub(s.At), s.Err != nil
	}
	return s
}

// look returns what the store has shown last. If it has shown nothing yet, look has answered.
func (v *visit) look() (s *sight.Sight, ok bool) {
	s = v.sight()
	if s.At.IsZero() {
		v.show(http.StatusOK, "Locks", s,
			html.H1(class("summary watch"), text("Nobody knows yet what is held")), empty(text("The store has not answered yet.")),
		)
		return nil, false
	}
	return s, true
}

// show sends a page, or the part of it that changes. It has a sight if it shows what is held.
func (v *visit) show(code int, title string, s *sight.Sight, main ...node) {
	root := group(v.notices(s), html.Main(html.ID("main"), html.TabIndex("-1"), group(main...)))
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
	v.show(code, http.StatusText(code), nil,
		html.H1(text(http.StatusText(code))), html.P(text(why)), html.P(html.A(html.Href("./"), text("All locks"))),
	)
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
	Done  string `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

func (v *visit) answer(code int, a answer) {
	text, _ := json.Marshal(a) // two strings
	v.w.Header().Set("Content-Type", wire.JSON)
	v.write(code, text)
}

// maxBody bounds what a page sends.
const maxBody = 16 << 10

// read reads what a page has sent. It reports whether that is what it should be.
func (v *visit) read(body any) bool {
	_ = http.NewResponseController(v.w).SetReadDeadline(time.Now().Add(writePatience))
	var b bytes.Buffer
	_, err := b.ReadFrom(http.MaxBytesReader(v.w, v.r.Body, maxBody))
	if err == nil {
		err = wire.Decode(b.Bytes(), body)
	}
	if err != nil {
		v.fail(http.StatusBadRequest, "The page sent something else than the server expects. Load it again.")
	}
	return err == nil
}
