package front

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/internal/pipenet"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Whatever a caller sends, its renewals and others' requests are served.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth, tokens := newAuth(t, "a", "b")
		f := newFront(t, whoami, &Options{Identify: auth.Identify, Hosts: []string{"example.com"}, Budget: budget.New(&budget.Options{
			Rates: map[budget.Flow]budget.Rate{budget.Requests: {PerSecond: 5, Most: 5}},
		})})
		ask := func(name, path string) answer {
			r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader("{}"))
			if path == wire.HoldsPath || path == "/healthz" {
				r.Method = "GET"
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+tokens[name])
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			return readAnswer(t, w.Result())
		}
		for range 5 {
			if got := ask("a", wire.AcquirePath); got.status != 200 {
				t.Fatalf("%d: %s", got.status, got.body)
			}
		}
		got := ask("a", wire.AcquirePath)
		if got.kind != wire.KindBusy || got.header.Get("Retry-After") != "1" {
			t.Errorf("the sixth: %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
		}
		for _, other := range [][2]string{{"a", wire.RenewPath}, {"a", wire.ReleasePath}, {"b", wire.AcquirePath}, {"a", wire.HoldsPath}, {"a", "/healthz"}} {
			if got := ask(other[0], other[1]); got.status != 200 {
				t.Errorf("%v: %d", other, got.status)
			}
		}
		time.Sleep(200 * time.Millisecond)
		if got := ask("a", wire.AcquirePath); got.status != 200 {
			t.Errorf("200 ms later: %d", got.status)
		}
	})
}

// unread is a body that must not be read.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.Error("the body is read")
	return 0, io.EOF
}

// Who has nothing left is refused before its body is read. Of renewals that is who has wasted
// its share, and has no hold that the server remembers.
func TestRefusedUnread(t *testing.T) {
	auth, tokens := newAuth(t, "a")
	b := budget.New(nil)
	f := newFront(t, whoami, &Options{Identify: auth.Identify, Hosts: []string{"example.com"}, Budget: b})
	ask := func(path string, body io.Reader) answer {
		r := httptest.NewRequestWithContext(t.Context(), "POST", path, body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+tokens["a"])
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		return readAnswer(t, w.Result())
	}
	a := b.Of("caller/a", false)
	a.Waste(1_000_000)
	for _, path := range []string{wire.AcquirePath, wire.RenewPath, wire.ReleasePath} {
		if got := ask(path, unread{t}); got.kind != wire.KindBusy {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	hold, _ := a.Open(budget.Holds, 1)
	defer hold.Close()
	if got := ask(wire.RenewPath, strings.NewReader("{}")); got.status != 200 {
		t.Errorf("a renewal of who has a hold: %d", got.status)
	}
}

// An operator has a share of its own to look and force, which also its own locks do not use.
func TestOperators(t *testing.T) {
	auth, tokens := newAuth(t, "a")
	for name, c := range map[string]struct {
		force bool
		want  int
	}{"an operator": {true, 200}, "another caller": {false, 429}} {
		b := budget.New(nil)
		identify := func(r *http.Request) (access.Caller, error) {
			caller, err := auth.Identify(r)
			return ranked{caller, c.force}, err
		}
		f := newFront(t, whoami, &Options{Identify: identify, Hosts: []string{"example.com"}, Budget: b})
		b.Of("caller/a", false).Correct(budget.Reads, 1e9)
		b.Of("caller/a", false).Correct(budget.Requests, 1e9)
		for _, path := range []string{wire.HoldsPath, "/resource", wire.ForceReleasePath, wire.SweepPath, "/force"} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", path, nil)
			if path == wire.HoldsPath || path == "/resource" {
				r.Method = "GET"
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+tokens["a"])
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s, %s: %d", name, path, w.Code)
			}
		}
	}
}

// ranked is a caller that may force everything, or not.
type ranked struct {
	access.Caller
	force bool
}

func (r ranked) MayAll(v access.Verb) bool { return r.force && v == access.Force }

func TestSender(t *testing.T) {
	auth, tokens := newAuth(t, "a")
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+tokens["a"])
	named, err := auth.Identify(r)
	check(t, err)
	for _, c := range []struct {
		caller  access.Caller
		address string
		want    string
	}{
		{named, "192.0.2.1", "caller/a"},
		{access.Everybody(), "127.0.0.1", "loopback"}, {access.Everybody(), "127.9.9.9", "loopback"}, {access.Everybody(), "::1", "loopback"},
		{access.Operator(), "unix:0", "unix:0"}, {access.Everybody(), "192.0.2.1", "192.0.2.1"}, {nil, "2001:db8::7", "2001:db8::/64"},
	} {
		if got := Sender(c.caller, c.address); got != c.want {
			t.Errorf("%s: %s, want %s", c.address, got, c.want)
		}
	}
}

// Who has no token is held off. Who has one is not, wherever it comes from.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth, tokens := newAuth(t, "a")
		told := 0
		f := newFront(t, whoami, &Options{
			Identify: auth.Identify, Hosts: []string{"example.com"}, Proxies: prefixes("203.0.113.0/24"),
			Refused: func(*http.Request, error) { told++ },
		})
		get := func(from, token string, forwarded ...string) answer {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr = from
			r.Header.Set("Authorization", "Bearer "+token)
			// What is said by somebody who is not believed opens no other bucket.
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", told))
			if len(forwarded) > 0 {
				r.Header.Set("X-Forwarded-For", forwarded[0])
			}
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			return readAnswer(t, w.Result())
		}
		for i := range failureBurst {
			if got := get("192.0.2.1:"+strconv.Itoa(i+1), "x"); got.kind != wire.KindAnonymous {
				t.Errorf("%d: %d", i, got.status)
			}
		}
		for range 3 {
			if got := get("192.0.2.1:99", "x"); got.kind != wire.KindBusy || got.header.Get("Retry-After") != "6" || !strings.Contains(got.body, "no token") || got.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%d, Retry-After %q: %s", got.status, got.header.Get("Retry-After"), got.body)
			}
		}
		if told != failureBurst {
			t.Errorf("told of %d", told)
		}
		if got := get("192.0.2.1:99", tokens["a"]); got.status != 200 {
			t.Errorf("a caller from the same address: %d", got.status)
		}
		if got := get("192.0.2.2:1", "x"); got.kind != wire.KindAnonymous {
			t.Errorf("another address: %d", got.status)
		}
		for range failureBurst {
			get("203.0.113.1:1", "x", "198.51.100.77")
		}
		if got := get("203.0.113.1:1", "x", "198.51.100.78"); got.kind != wire.KindAnonymous {
			t.Errorf("another address behind the same proxy: %d", got.status)
		}
		if got := get("203.0.113.2:1", "x", "198.51.100.77"); got.kind != wire.KindBusy {
			t.Errorf("the same address behind another proxy: %d", got.status)
		}
		for i := range failureBurst {
			get(fmt.Sprintf("[2001:db8::%d]:1", i), "x")
		}
		if got := get("[2001:db8::ffff]:1", "x"); got.kind != wire.KindBusy {
			t.Errorf("another address of the same network: %d", got.status)
		}
		time.Sleep(6 * time.Second)
		if got := get("192.0.2.1:1", "x"); got.kind != wire.KindAnonymous {
			t.Errorf("6 s later: %d", got.status)
		}
	})
}

// Handshakes that fail are warnings, but not many, and not those of who only looks.
func TestWarningsOfHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := &errorLog{log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		const bad = "http: TLS handshake error from 192.0.2.1:1: tls: failed to verify certificate: x509: certificate has expired\n"
		for _, line := range []string{"http: TLS handshake error from 192.0.2.1:1: EOF\n", bad, bad} {
			if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
				t.Error(n, err)
			}
		}
		if got := strings.Count(text.String(), "level=WARN"); got != 1 || !strings.Contains(text.String(), "has expired") {
			t.Errorf("%s", text.String())
		}
		time.Sleep(handshakePause)
		_, _ = l.Write([]byte(bad))
		if got := strings.Count(text.String(), "level=WARN"); got != 2 {
			t.Errorf("%s", text.String())
		}
	})
}

// An access.Identify that forgets its error lets nobody in.
func TestNoCallerAndNoError(t *testing.T) {
	addr := start(t, whoami, &Options{Identify: func(*http.Request) (access.Caller, error) { return nil, nil }})
	if got := send(t, client(t, nil), "GET", "http://"+addr+"/v1/holds", ""); got.kind != wire.KindUnknown {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Who has nothing left is told so without a read of a large body, and a header has its limit.
func TestRefusedWithoutReading(t *testing.T) {
	for name, c := range map[string]struct{ header, want string }{
		"a large body":   {"Content-Length: 1048576\r\n\r\n", "HTTP/1.1 429 "},
		"a large header": {"X-Long: " + strings.Repeat("x", 21<<10), "HTTP/1.1 431 "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := budget.New(nil)
				b.Of("unknown", false).Waste(1_000_000)
				l := pipenet.Listen()
				serve(t, l, newFront(t, whoami, &Options{Hosts: []string{"pipe"}, Budget: b}))
				conn, err := l.DialContext(t.Context(), "", "")
				check(t, err)
				var sender sync.WaitGroup
				defer sender.Wait()
				defer conn.Close()
				began := time.Now()
				sender.Go(func() {
					_, _ = io.WriteString(conn, "POST /v1/renew HTTP/1.1\r\nHost: pipe\r\nContent-Type: application/json\r\n"+c.header)
				})
				text, _ := io.ReadAll(conn)
				if took := time.Since(began); took > 2*time.Second || !strings.HasPrefix(string(text), c.want) {
					t.Errorf("after %v: %.200s", took, text)
				}
			})
		})
	}
}
