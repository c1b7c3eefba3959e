package browser

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/dashboard"
)

// sessions is the dashboard's Login. It signs anybody in until the test ends the sessions.
type sessions struct {
	mu    sync.Mutex
	until time.Time
}

func (s *sessions) identify(r *http.Request) (access.Caller, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, err := r.Cookie("session"); err != nil || c.Value == "" || !time.Now().Before(s.until) {
		return nil, access.ErrAnonymous
	}
	return signedIn{access.Onlooker(), s.until}, nil
}

// signedIn is the caller of a session.
type signedIn struct {
	access.Caller
	until time.Time
}

func (signedIn) Name() string       { return "ada" }
func (s signedIn) Until() time.Time { return s.until }

func (s *sessions) lasts(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
}

func (s *sessions) SignIn(w http.ResponseWriter, _ *http.Request, token string) error {
	if token != "token" {
		return errors.New("the test has another token")
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: "1", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return nil
}

func (s *sessions) SignOut(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{Name: "session", Path: "/", MaxAge: -1})
}

// When a session ends, or its user signs out in one window, all windows go to the form, and
// after signing in back to their pages.
func TestSessionEnds(t *testing.T) {
	login := new(sessions)
	login.lasts(time.Hour)
	pages, err := dashboard.New(memlock.New(nil), &dashboard.Options{Identify: login.identify, Login: login})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(pages)
	defer server.Close()
	defer pages.Close()
	url := server.URL + "/"
	signIn := func(b *browser) {
		b.Helper()
		b.shows("Your token")
		b.do(chromedp.SendKeys(`#token`, "token"), chromedp.Click(`#sign-in button`))
	}
	b := open(t, 1200, 900, "401", "Failed to load")
	b.visit(url + "resource?name=nightly")
	signIn(b)
	b.shows("Nobody held it at the last look.")
	ctx, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	other := &browser{T: t, ctx: ctx}
	other.visit(url)
	other.shows("Nothing is held")

	// The session ends.
	login.lasts(0)
	b.shows("Your token")
	other.shows("Your token")
	login.lasts(time.Hour)
	signIn(b)
	b.shows("Nobody held it at the last look.")
	if at := eval[string](b, `location.pathname + location.search`); at != "/resource?name=nightly" {
		t.Errorf("after the sign-in: %s", at)
	}
	other.visit(url + "history")
	other.shows("Who held what")

	// The user signs out in one window.
	b.do(chromedp.Click(`[data-sign-out]`))
	b.shows("Your token")
	other.shows("Your token")
	if at := eval[string](other, `location.search`); !strings.Contains(at, "next=history") {
		t.Errorf("it would go back to %s", at)
	}
}
