package httplock_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// middlebox passes requests on to a server, and treats some of them as proxies, firewalls
// and portals may.
type middlebox struct {
	rest
	url    string
	server *httputil.ReverseProxy

	mu  sync.Mutex
	rnd *rand.Rand
	// last is the last answer of each path, which may be given to another request.
	last map[string]given
}

// given is an answer, with the hold IDs and place IDs of its request.
type given struct {
	ids    []string
	answer *httptest.ResponseRecorder
}

// newMiddlebox starts a middlebox in front of the server at the URL.
func newMiddlebox(t testing.TB, server string, seed uint64) *middlebox {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	m := &middlebox{rnd: rand.New(rand.NewPCG(seed, 0)), last: make(map[string]given), server: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	at := httptest.NewServer(m)
	m.url = at.URL
	t.Cleanup(func() {
		at.CloseClientConnections()
		at.Close()
		transport.CloseIdleConnections()
	})
	return m
}

func (m *middlebox) roll(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rnd.IntN(n)
}

// byItself has the middlebox's own answers.
var byItself = []struct {
	status      int
	media, body string
}{
	{502, "text/html", "<html>bad gateway</html>"},
	{504, "text/html", "<html>timeout</html>"},
	{429, "text/plain", "slow down"},
	{200, "text/html", "<html>log in</html>"},
	{200, wire.JSON, `{}`},
	{404, "text/plain", "404 page not found"},
	{409, "text/html", "<html>conflict</html>"},
	{409, wire.ProblemJSON, `{"type":"about:blank","status":409}`},
}

func (m *middlebox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.resting() || m.roll(100) >= 30 {
		m.server.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	pass := func() *httptest.ResponseRecorder {
		inner := r.Clone(context.WithoutCancel(r.Context()))
		inner.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		m.server.ServeHTTP(answer, inner)
		return answer
	}
	answer := func() {
		a := byItself[m.roll(len(byItself))]
		w.Header().Set("Content-Type", a.media)
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}
	switch m.roll(8) {
	case 0: // it drops the request
		panic(http.ErrAbortHandler)
	case 1: // it drops the answer
		pass()
		panic(http.ErrAbortHandler)
	case 2: // it answers by itself
		answer()
	case 3: // it replaces the server's answer
		pass()
		answer()
	case 4: // it repeats the request
		pass()
		copyTo(w, pass(), 0, false)
	case 5: // the answer breaks off
		copyTo(w, pass(), 1, false)
	case 6: // it passes the answer on byte by byte
		copyTo(w, pass(), 0, true)
	case 7: // it mixes up answers
		copyTo(w, m.mixUp(r.URL.Path, body, pass()), 0, false)
	}
}

// mixUp returns the last answer for the path, if that is about other holds.
func (m *middlebox) mixUp(path string, body []byte, answer *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	if path == wire.SweepPath || answer.Code != http.StatusOK && answer.Code != http.StatusConflict {
		return answer
	}
	ids := idOf.FindAllString(string(body), -1)
	m.mu.Lock()
	defer m.mu.Unlock()
	last, ok := m.last[path]
	m.last[path] = given{ids, answer}
	if !ok || len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(last.ids, id) }) {
		return answer
	}
	return last.answer
}

var idOf = regexp.MustCompile(`[0-9a-f]{24}`)

// copyTo answers as recorded, but omits short bytes at the end.
func copyTo(w http.ResponseWriter, answer *httptest.ResponseRecorder, short int, slowly bool) {
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	out := http.NewResponseController(w)
	text := answer.Body.Bytes()
	text = text[:max(0, len(text)-short)]
	for len(text) > 0 && slowly {
		_, _ = w.Write(text[:1])
		_ = out.Flush()
		text = text[1:]
	}
	_, _ = w.Write(text)
	if short > 0 {
		_ = out.Flush()
		panic(http.ErrAbortHandler)
	}
}
