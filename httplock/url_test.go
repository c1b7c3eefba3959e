package httplock

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct{ at, socket, name string }{
		"https://h":                        {at: "https://h/v1/traits", name: "https://h"},
		"https://h:8443/":                  {at: "https://h:8443/v1/traits", name: "https://h:8443"},
		"https://h/a/b/":                   {at: "https://h/a/b/v1/traits", name: "https://h"},
		"https://h/a%2Fb":                  {at: "https://h/a%2Fb/v1/traits", name: "https://h"},
		"https://10.0.0.1":                 {at: "https://10.0.0.1/v1/traits", name: "https://10.0.0.1"},
		"http://127.0.0.1:4653":            {at: "http://127.0.0.1:4653/v1/traits", name: "http://127.0.0.1:4653"},
		"http://127.9.8.7":                 {at: "http://127.9.8.7/v1/traits", name: "http://127.9.8.7"},
		"http://[::1]:4653/base":           {at: "http://[::1]:4653/base/v1/traits", name: "http://[::1]:4653"},
		"http://[::ffff:127.0.0.1]":        {at: "http://[::ffff:127.0.0.1]/v1/traits", name: "http://[::ffff:127.0.0.1]"},
		"http://LOCALHOST":                 {at: "http://LOCALHOST/v1/traits", name: "http://LOCALHOST"},
		"unix:///run/holdfast.sock":        {at: "http://localhost/v1/traits", socket: "/run/holdfast.sock", name: "unix:/run/holdfast.sock"},
		"unix:/run/holdfast%3F.sock":       {at: "http://localhost/v1/traits", socket: "/run/holdfast?.sock", name: "unix:/run/holdfast?.sock"},
		"unix:///s?token_file=/etc/a%20b":  {at: "http://localhost/v1/traits", socket: "/s", name: "unix:/s"},
		"https://h?ca=a&cert=b&key=c":      {at: "https://h/v1/traits", name: "https://h"},
		"https://h/?token_file=/run/token": {at: "https://h/v1/traits", name: "https://h"},
	} {
		u, err := driver.ParseURL(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(u)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if at := got.at("/v1/traits", nil).String(); at != want.at || got.socket != want.socket || got.name != want.name {
			t.Errorf("%s: %s, socket %q, name %q", text, at, got.socket, got.name)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"https://":                          "names no host",
		"https:h":                           "names no host",
		"https:///base":                     "names no host",
		"https://me:s3cret@h":               "token_file",
		"https://s3cret@h":                  "HOLDFAST_SERVER_TOKEN",
		"https://h/s3cret@x":                "an @",
		"https://h1,h2":                     "several hosts",
		"https://h:0":                       "the port",
		"https://h:99999":                   "the port",
		"https://h:":                        "the port",
		"https://h:s3cret":                  "cannot be parsed",
		"https://h#s3cret":                  "%23",
		"https://h?token=s3cret":            "token_file",
		"https://h?s=s3cret":                `unknown parameter "s"`,
		"https://h?ca=a;b":                  "escaped",
		"https://h?ca=":                     "one value",
		"https://h?ca=a&ca=b":               "one value",
		"https://h?cert=a":                  "come together",
		"https://h?key=a":                   "come together",
		"https://h?ca=/nosuch":              "/nosuch",
		"https://h?ca=url_test.go":          "no certificate",
		"https://h?cert=/nosuch&key=/no":    "/nosuch",
		"http://h":                          "write https://",
		"http://10.0.0.1":                   "write https://",
		"http://0.0.0.0":                    "write https://",
		"http://127.1":                      "write https://",
		"http://localhost.example.com":      "write https://",
		"http://[::]":                       "write https://",
		"http://127.0.0.1?ca=url_test.go":   "are for https",
		"unix://run/holdfast.sock":          "three slashes",
		"unix:run/holdfast.sock":            "three slashes",
		"unix:///":                          "three slashes",
		"unix:///s?ca=url_test.go":          "are for https",
		"ftp://h":                           "none of https",
		"https://h?tokenfile=/nosuch":       "token_file, ca, cert and key",
		"https://h?token_file=/nosuch":      "/nosuch",
		"https://h?token_file=/dev/null":    "is empty",
		"https://h?token_file=url_test.go":  "printable characters",
		"https://h/%zz?token_file=s3cret":   "cannot be parsed",
		"https://user:s3cret@h/?token=x":    "token_file",
		"unix://user:s3cret@/run/holdfast":  "token_file",
		"http://127.0.0.1?cert=/a&key=/bbb": "are for https",
	} {
		s, err := New(text, nil)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s was accepted", text)
			continue
		}
		if !errors.Is(err, driver.ErrInvalid) && !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", text, err, says)
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, which contains a secret", text, err)
		}
	}
}

// Programs open the store by its URL, with the token of the environment unless the URL
// names a file. Init checks that there is a server.
func TestOpenByURL(t *testing.T) {
	var got []string
	server := &testServer{t: t, store: memlock.New(nil), before: func(_ http.ResponseWriter, r *http.Request) bool {
		got = append(got, r.Header.Get("Authorization"))
		return true
	}}
	at := server.listen().URL
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(storeURL string) {
		t.Helper()
		s, err := driver.Open(t.Context(), storeURL)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.(driver.Initializer).Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		if traits := s.Traits(); traits.Name != "http" || !traits.Queue || traits.Reach != driver.Host {
			t.Errorf("%+v", traits)
		}
	}
	open(at)
	t.Setenv(tokenVariable, "of-the-environment")
	open(at + "/?")
	open(at + "?token_file=" + url.QueryEscape(file))
	want := ", Bearer of-the-environment, Bearer of-the-file"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv(tokenVariable, "s3cret\ns3cret")
	if _, err := driver.Open(t.Context(), at); !errors.Is(err, driver.ErrInvalid) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("with a token of two lines: %v", err)
	}
}

// With https, the store of one host reaches the network. An untrusted certificate is an
// error that does not pass by itself.
func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	ca, cert, key := authority(t, dir)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	var protocol string
	server := httptest.NewUnstartedServer(&testServer{t: t, store: memlock.New(nil), before: func(_ http.ResponseWriter, r *http.Request) bool {
		protocol = r.Proto
		if len(r.TLS.PeerCertificates) != 1 {
			t.Error("no certificate of the caller")
		}
		return true
	}})
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a client that does not trust it closes the connection
	server.StartTLS()
	t.Cleanup(server.Close)
	at := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)

	s := dial(t, at+"?ca="+ca+"&cert="+cert+"&key="+key, nil)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reach := s.Traits().Reach; reach != driver.Network || protocol != "HTTP/1.1" {
		t.Errorf("reach %v, protocol %s", reach, protocol)
	}
	err = dial(t, at, nil).Init(t.Context())
	if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "?ca=FILE") {
		t.Errorf("without the authority: %v", err)
	}
	err = dial(t, strings.Replace(at, "https", "http", 1), nil).Init(t.Context())
	if err == nil || errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "write https://") {
		t.Errorf("http to a port for https: %v", err)
	}
	err = dial(t, server.URL+"?ca="+ca+"&cert="+cert+"&key="+key, nil).Init(t.Context())
	if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "does not fit the URL") || strings.Contains(err.Error(), "?ca=FILE") {
		t.Errorf("by another name: %v", err)
	}
}

// If the server does not accept the caller's certificate, or it is missing, that is an
// error that does not pass by itself, in every version of TLS.
func TestRefusedCertificates(t *testing.T) {
	ca, cert, key := authority(t, t.TempDir())
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		version uint16
		own     bool
		says    string
	}{
		"missing":            {tls.VersionTLS13, false, "?cert=FILE"},
		"not known":          {tls.VersionTLS13, true, "does not accept the certificate in " + cert},
		"not known, TLS 1.2": {tls.VersionTLS12, true, "does not accept the certificate in " + cert},
	} {
		server := httptest.NewUnstartedServer(&testServer{t: t, store: memlock.New(nil)})
		server.TLS = &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(),
			MinVersion: tls.VersionTLS12, MaxVersion: c.version,
		}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		at := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "?ca=" + ca
		if c.own {
			at += "&cert=" + cert + "&key=" + key
		}
		err := dial(t, at, nil).Init(t.Context())
		if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two tokens are refused, because it is unclear which counts.
func TestTwoTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New("https://h?token_file="+url.QueryEscape(file), &Options{Token: "a"}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("two tokens: %v", err)
	}
}

// A name that resolves to another machine gets no plain HTTP.
func TestOnlyLoopback(t *testing.T) {
	for address, refused := range map[string]bool{
		"127.0.0.1:80": false, "[::1]:80": false, "127.1.2.3:80": false, "10.0.0.1:80": true, "[fe80::1]:80": true, "x": true,
	} {
		if err := onlyLoopback(t.Context(), "tcp", address, nil); errors.Is(err, driver.ErrUnusable) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	s := dial(t, "http://localhost:1", nil)
	if s.calls.Proxy != nil {
		t.Error("plain HTTP would go through a proxy")
	}
}
