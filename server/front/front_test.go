package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
)

// What comes in to a server on loopback without auth.
func TestWithoutAuth(t *testing.T) {
	addr := start(t, whoami, &Options{Hosts: []string{"locks.example.com", "other.example.com:8443"}})
	_, port, err := net.SplitHostPort(addr)
	check(t, err)
	c := client(t, nil)
	const json = "Content-Type: application/json"
	for name, want := range map[string]struct {
		method, path string
		headers      []string
		kind         wire.Kind
	}{
		"by address":               {"GET", "/v1/holds", nil, ""},
		"a post":                   {"POST", wire.AcquirePath, []string{json}, ""},
		"localhost":                {"GET", "/v1/holds", []string{"Host: localhost:" + port}, ""},
		"localhost, capitals":      {"GET", "/v1/holds", []string{"Host: LocalHost:" + port}, ""},
		"::1":                      {"GET", "/v1/holds", []string{"Host: [::1]:" + port}, ""},
		"its name":                 {"GET", "/v1/holds", []string{"Host: Locks.Example.com"}, ""},
		"its name, any port":       {"GET", "/v1/holds", []string{"Host: locks.example.com:1"}, ""},
		"its name and port":        {"GET", "/v1/holds", []string{"Host: other.example.com:8443"}, ""},
		"another port of its name": {"GET", "/v1/holds", []string{"Host: other.example.com:8444"}, wire.KindMisdirected},
		"no port of its name":      {"GET", "/v1/holds", []string{"Host: other.example.com"}, wire.KindMisdirected},
		"a foreign name":           {"GET", "/v1/holds", []string{"Host: evil.example.com:" + port}, wire.KindMisdirected},
		"a longer name":            {"GET", "/v1/holds", []string{"Host: xlocks.example.com"}, wire.KindMisdirected},
		"a name below":             {"GET", "/v1/holds", []string{"Host: locks.example.com.evil.com"}, wire.KindMisdirected},
		"a final dot":              {"GET", "/v1/holds", []string{"Host: localhost.:" + port}, wire.KindMisdirected},
		"localhost below a name":   {"GET", "/v1/holds", []string{"Host: a.localhost:" + port}, wire.KindMisdirected},
		"localhost, no port":       {"GET", "/v1/holds", []string{"Host: localhost"}, wire.KindMisdirected},
		"localhost, another port":  {"GET", "/v1/holds", []string{"Host: localhost:1"}, wire.KindMisdirected},
		"another loopback address": {"GET", "/v1/holds", []string{"Host: 127.0.0.2:" + port}, wire.KindMisdirected},
		"an address as a number":   {"GET", "/v1/holds", []string{"Host: 2130706433:" + port}, wire.KindMisdirected},
		"an address cut short":     {"GET", "/v1/holds", []string{"Host: 127.1:" + port}, wire.KindMisdirected},
		"an address of everything": {"GET", "/v1/holds", []string{"Host: 0.0.0.0:" + port}, wire.KindMisdirected},
		"readyz, foreign origin":   {"GET", "/readyz", []string{"Host: evil.example.com", "Origin: http://other.example.com"}, wire.KindDenied},
		"openapi, a foreign name":  {"GET", "/openapi.yaml", []string{"Host: evil.example.com"}, wire.KindMisdirected},
		"metrics, a foreign name":  {"GET", "/metrics", []string{"Host: evil.example.com"}, wire.KindMisdirected},
		"unknown path, foreign":    {"GET", "/x", []string{"Host: evil.example.com"}, wire.KindMisdirected},

		"charset utf-8":       {"POST", wire.AcquirePath, []string{"Content-Type: application/json; charset=UTF-8"}, ""},
		"capitals":            {"POST", wire.AcquirePath, []string{"Content-Type: Application/JSON"}, ""},
		"another charset":     {"POST", wire.AcquirePath, []string{"Content-Type: application/json; charset=utf-16"}, wire.KindMediaType},
		"text/plain":          {"POST", wire.AcquirePath, []string{"Content-Type: text/plain"}, wire.KindMediaType},
		"text with json":      {"POST", wire.AcquirePath, []string{"Content-Type: text/plain; application/json"}, wire.KindMediaType},
		"a form":              {"POST", wire.ReleasePath, []string{"Content-Type: application/x-www-form-urlencoded"}, wire.KindMediaType},
		"a form with a file":  {"POST", wire.ReleasePath, []string{"Content-Type: multipart/form-data; boundary=x"}, wire.KindMediaType},
		"no type":             {"POST", wire.AcquirePath, nil, wire.KindMediaType},
		"an empty type":       {"POST", wire.AcquirePath, []string{"Content-Type: "}, wire.KindMediaType},
		"two types":           {"POST", wire.AcquirePath, []string{json, "Content-Type: text/plain"}, wire.KindMediaType},
		"two types in one":    {"POST", wire.AcquirePath, []string{"Content-Type: application/json, text/plain"}, wire.KindMediaType},
		"JSON of another API": {"POST", wire.AcquirePath, []string{"Content-Type: application/vnd.api+json"}, wire.KindMediaType},
		"compressed, second":  {"POST", wire.AcquirePath, []string{json, "Content-Encoding: ", "Content-Encoding: gzip"}, wire.KindMediaType},
		"compressed":          {"POST", wire.AcquirePath, []string{json, "Content-Encoding: gzip"}, wire.KindMediaType},

		"its own origin":               {"POST", wire.AcquirePath, []string{json, "Origin: http://" + addr}, ""},
		"origin null":                  {"POST", wire.AcquirePath, []string{json, "Origin: null"}, wire.KindDenied},
		"origin null, says same":       {"POST", wire.AcquirePath, []string{json, "Origin: null", "Sec-Fetch-Site: same-origin"}, wire.KindDenied},
		"origin null of a GET":         {"GET", "/v1/holds", []string{"Origin: null"}, wire.KindDenied},
		"a foreign origin":             {"POST", wire.AcquirePath, []string{json, "Origin: https://evil.example.com"}, wire.KindDenied},
		"a foreign origin of a GET":    {"GET", "/v1/watch", []string{"Origin: https://evil.example.com"}, wire.KindDenied},
		"its origin, another port":     {"POST", wire.AcquirePath, []string{json, "Origin: http://127.0.0.1:1"}, wire.KindDenied},
		"two origins":                  {"POST", wire.AcquirePath, []string{json, "Origin: http://" + addr, "Origin: null"}, wire.KindDenied},
		"another site":                 {"POST", wire.AcquirePath, []string{json, "Sec-Fetch-Site: cross-site"}, wire.KindDenied},
		"the same site":                {"POST", wire.AcquirePath, []string{json, "Sec-Fetch-Site: same-site"}, wire.KindDenied},
		"a script of another site":     {"GET", "/v1/holds", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, wire.KindDenied},
		"a frame of another site":      {"GET", "/v1/watch", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, wire.KindDenied},
		"a link of another site":       {"GET", "/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, ""},
		"a link without an origin":     {"GET", "/", []string{"Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, wire.KindDenied},
		"a form of another site":       {"POST", wire.AcquirePath, []string{json, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, wire.KindDenied},
		"a preflight":                  {"OPTIONS", wire.AcquirePath, []string{"Origin: https://evil.example.com", "Access-Control-Request-Method: POST"}, wire.KindDenied},
		"a page of its own":            {"GET", "/v1/holds", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"}, ""},
		"typed by its user":            {"GET", "/", []string{"Sec-Fetch-Site: none"}, ""},
		"a put of another site":        {"PUT", wire.AcquirePath, []string{"Sec-Fetch-Site: cross-site"}, wire.KindDenied},
		"Forwarded":                    {"GET", "/v1/holds", []string{"Forwarded: for=192.0.2.1"}, wire.KindDenied},
		"X-Forwarded-For":              {"GET", "/v1/holds", []string{"X-Forwarded-For: 192.0.2.1"}, wire.KindDenied},
		"x-forwarded-proto":            {"GET", "/healthz", []string{"x-forwarded-proto: https"}, wire.KindDenied},
		"a token that nobody asks for": {"GET", "/v1/holds", []string{"Authorization: Bearer x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			body := ""
			if want.method == "POST" {
				body = "{}"
			}
			got := send(t, c, want.method, "http://"+addr+want.path, body, want.headers...)
			if got.kind != want.kind || want.kind == "" && got.body != "caller  from 127.0.0.1" {
				t.Errorf("%d, %q: %s, want %q", got.status, got.kind, got.body, want.kind)
			}
			for name, value := range map[string]string{
				"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
				"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got.header.Get(name) != value {
					t.Errorf("%s is %q", name, got.header.Get(name))
				}
			}
			if got.header.Get("Access-Control-Allow-Origin") != "" || got.header.Get(wire.StoreHeader) != "" {
				t.Errorf("headers %v", got.header)
			}
		})
	}
}

// A request without Host, or for another server by its first line.
func TestHostOfOldRequests(t *testing.T) {
	addr := start(t, whoami, nil)
	for _, head := range []string{
		"GET /v1/holds HTTP/1.0\r\n\r\n",
		"GET http://evil.example.com/v1/holds HTTP/1.1\r\nHost: " + addr + "\r\nConnection: close\r\n\r\n",
		"POST /v1/acquire HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
	} {
		if got := sendRaw(t, addr, head); !strings.Contains(got, " 421 ") {
			t.Errorf("%q: %q", head, got)
		}
	}
	// A balancer that only asks whether the server is there may leave the name out.
	for _, head := range []string{"GET /healthz HTTP/1.0\r\n\r\n", "GET /readyz HTTP/1.1\r\nHost: 10.0.0.7\r\nConnection: close\r\n\r\n", "GET /readyz HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n"} {
		if got := sendRaw(t, addr, head); !strings.Contains(got, " 200 ") {
			t.Errorf("%q: %q", head, got)
		}
	}
	// Not even the server itself sees a name that is none.
	for _, head := range []string{"GET / HTTP/1.1\r\nHost: " + addr + "\r\nHost: evil\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"} {
		if got := sendRaw(t, addr, head); !strings.Contains(got, " 400 ") {
			t.Errorf("%q: %q", head, got)
		}
	}
}

func TestHandlerRefused(t *testing.T) {
	for name, o := range map[string]*Options{
		"an empty host":  {Hosts: []string{""}},
		"a URL":          {Hosts: []string{"https://locks.example.com"}},
		"a wildcard":     {Hosts: []string{"*.example.com"}},
		"a port alone":   {Hosts: []string{":80"}},
		"no port":        {Hosts: []string{"a:"}},
		"port 0":         {Hosts: []string{"a:0"}},
		"a port too far": {Hosts: []string{"a:65536"}},
		"a bare IPv6":    {Hosts: []string{"2001:db8::1"}},
		"no IPv6":        {Hosts: []string{"[a]"}},
	} {
		if _, err := Handler(whoami, o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	newFront(t, whoami, &Options{Hosts: []string{"a", "A-1.example.com:8443", "192.0.2.1", "[2001:db8::1]:443", "[::1]"}})
}

func TestWithAuth(t *testing.T) {
	auth, tokens := newAuth(t, "a", "b")
	var denied atomic.Int32
	addr := start(t, whoami, &Options{Identify: auth.Identify, Store: func() string { return "0123" }, Refused: func(r *http.Request, err error) {
		if denied.Add(1); AddressOf(r) != "127.0.0.1" || err == nil {
			t.Errorf("told of %v from %s", err, AddressOf(r))
		}
	}})
	c := client(t, nil)
	for name, want := range map[string]struct {
		path    string
		headers []string
		kind    wire.Kind
		body    string
	}{
		"a":                   {"/v1/holds", []string{"Authorization: Bearer " + tokens["a"]}, "", "caller a from 127.0.0.1"},
		"b":                   {"/v1/holds", []string{"Authorization: Bearer " + tokens["b"]}, "", "caller b from 127.0.0.1"},
		"nothing":             {"/v1/holds", nil, wire.KindAnonymous, ""},
		"nothing, no path":    {"/no/such/path", nil, wire.KindAnonymous, ""},
		"a wrong token":       {"/v1/holds", []string{"Authorization: Bearer x"}, wire.KindAnonymous, ""},
		"two tokens":          {"/v1/holds", []string{"Authorization: Bearer " + tokens["a"], "Authorization: Bearer " + tokens["b"]}, wire.KindAnonymous, ""},
		"a foreign page":      {"/v1/holds", []string{"Authorization: Bearer " + tokens["a"], "Origin: https://evil.example.com"}, wire.KindDenied, ""},
		"a foreign name":      {"/v1/holds", []string{"Authorization: Bearer " + tokens["a"], "Host: evil.example.com"}, wire.KindMisdirected, ""},
		"behind a proxy":      {"/v1/holds", []string{"Authorization: Bearer " + tokens["a"], "X-Forwarded-For: 192.0.2.1"}, "", "caller a from 127.0.0.1"},
		"a name in a header":  {"/v1/holds", []string{"X-Forwarded-User: a", "X-Remote-User: a"}, wire.KindAnonymous, ""},
		"healthz":             {"/healthz", nil, "", "nobody from 127.0.0.1"},
		"readyz":              {"/readyz", nil, "", "nobody from 127.0.0.1"},
		"healthz, unclean":    {"//healthz", nil, wire.KindAnonymous, ""},
		"healthz, and a path": {"/healthz/../v1/holds", nil, wire.KindAnonymous, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := denied.Load()
			got := send(t, c, "GET", "http://"+addr+want.path, "", want.headers...)
			if got.kind != want.kind || want.kind == "" && got.body != want.body {
				t.Errorf("%d, %q: %s, want %q", got.status, got.kind, got.body, want.kind)
			}
			if told := denied.Load() > before; told != (want.kind == wire.KindAnonymous) {
				t.Errorf("it is told of: %v", told)
			}
			if basic := got.header.Get("WWW-Authenticate"); (basic == "Bearer") != (want.kind == wire.KindAnonymous) {
				t.Errorf("WWW-Authenticate is %q", basic)
			}
			if got.header.Get(wire.StoreHeader) != "0123" {
				t.Errorf("headers %v", got.header)
			}
			for _, token := range tokens {
				if strings.Contains(got.body, token[:20]) {
					t.Errorf("the answer repeats the token: %s", got.body)
				}
			}
		})
	}
}

func TestCallerOfOthers(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	if c, err := CallerOf(r); err == nil {
		t.Errorf("a request that came through no Front has caller %v", c)
	}
}

func TestAddressOf(t *testing.T) {
	for name, c := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"no proxy":                  {"192.0.2.1:1", nil, "192.0.2.1"},
		"who is not believed":       {"192.0.2.1:1", []string{"198.51.100.7"}, "192.0.2.1"},
		"a proxy":                   {"10.0.0.1:1", []string{"198.51.100.7"}, "198.51.100.7"},
		"a proxy that adds":         {"10.0.0.1:1", []string{"1.1.1.1, 198.51.100.7"}, "198.51.100.7"},
		"two proxies":               {"10.0.0.1:1", []string{"1.1.1.1, 198.51.100.7, 10.0.0.2"}, "198.51.100.7"},
		"in two headers":            {"10.0.0.1:1", []string{"1.1.1.1,198.51.100.7", "10.0.0.2"}, "198.51.100.7"},
		"proxies alone":             {"10.0.0.1:1", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3"},
		"no address":                {"10.0.0.1:1", []string{"unknown"}, "10.0.0.1"},
		"a terminal's escape":       {"10.0.0.1:1", []string{"\x1b[2J"}, "10.0.0.1"},
		"an address, then no one":   {"10.0.0.1:1", []string{"198.51.100.7, x"}, "10.0.0.1"},
		"nothing":                   {"10.0.0.1:1", []string{""}, "10.0.0.1"},
		"a proxy by IPv6":           {"[2001:db8::1]:1", []string{"2001:db8:1::7"}, "2001:db8:1::7"},
		"IPv4 in IPv6":              {"[::ffff:10.0.0.1]:1", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		"a zone":                    {"[fe80::1%eth0]:1", nil, "fe80::1"},
		"a connection of some kind": {"@", nil, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			auth, tokens := newAuth(t, "a")
			o := &Options{Identify: auth.Identify, Hosts: []string{"example.com"}, Proxies: prefixes("10.0.0.0/8", "2001:db8::/64")}
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr = c.remote
			r.Header["X-Forwarded-For"] = c.forwarded
			r.Header.Set("Authorization", "Bearer "+tokens["a"])
			w := httptest.NewRecorder()
			newFront(t, whoami, o).ServeHTTP(w, r)
			if want := "caller a from " + c.want; w.Body.String() != want {
				t.Errorf("%q, want %q", w.Body.String(), want)
			}
		})
	}
}

// Guests are callers who are not known, at the paths for them.
func TestGuests(t *testing.T) {
	who := errors.New("nobody asked")
	f := newFront(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, who = CallerOf(r) }), &Options{
		Identify: func(r *http.Request) (access.Caller, error) {
			if r.Header.Get("Authorization") == "" {
				return nil, fmt.Errorf("%w: no token", access.ErrAnonymous)
			}
			return access.Everybody(), nil
		},
		Guests: func(r *http.Request) bool { return r.URL.Path == "/login" },
	})
	ask := func(path, token string, header ...string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:4653"+path, nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4653}))
		if token != "" {
			r.Header.Set("Authorization", token)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		return w.Code
	}
	if got := ask("/login", ""); got != http.StatusOK || !errors.Is(who, access.ErrAnonymous) {
		t.Errorf("a guest: status %d, caller %v", got, who)
	}
	if got := ask("/login", "token"); got != http.StatusOK || who != nil {
		t.Errorf("a caller: status %d, error %v", got, who)
	}
	if got := ask("/v1/holds", ""); got != http.StatusUnauthorized {
		t.Errorf("a guest elsewhere: status %d", got)
	}
	if got := ask("/login", "", "Origin", "https://evil.example"); got != http.StatusForbidden {
		t.Errorf("a guest of another origin: status %d", got)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/sign-in", nil)
	tries := 0
	for ok := true; ok && tries < 100; tries++ {
		ok = f.Failed(r)
	}
	if tries != failureBurst { // the guest elsewhere was one, and the last is refused
		t.Errorf("%d tries", tries)
	}
}
