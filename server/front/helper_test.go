package front

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// whoami reads the body and answers who sent the request, and from where.
var whoami http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		new(Front).refuse(w, refused(wire.KindTooLarge, err.Error()))
		return
	}
	name := "nobody"
	if c, err := CallerOf(r); err == nil {
		name = "caller " + c.Name()
		if c.MayAll(access.Force) {
			name = "operator"
		}
	}
	_, _ = io.WriteString(w, name+" from "+AddressOf(r))
})

func newFront(t *testing.T, next http.Handler, o *Options) *Front {
	t.Helper()
	f, err := Handler(next, o)
	check(t, err)
	return f
}

// serve serves the handler on the listener until the test ends.
func serve(t *testing.T, l net.Listener, h http.Handler) {
	t.Helper()
	s := Server(h, nil)
	run(t, s, func() error { return s.Serve(l) })
}

// run serves by the server until the test ends.
func run(t *testing.T, s *http.Server, serve func() error) {
	t.Helper()
	var served sync.WaitGroup
	served.Go(func() { _ = serve() })
	t.Cleanup(func() {
		_ = s.Close()
		served.Wait()
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	return l
}

// start serves next behind a Front on loopback, and returns its address.
func start(t *testing.T, next http.Handler, o *Options) string {
	t.Helper()
	l := listen(t)
	serve(t, l, newFront(t, next, o))
	return l.Addr().String()
}

// client returns a client whose connections end with the test.
func client(t *testing.T, change func(*http.Transport)) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	if change != nil {
		change(transport)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func dialSocket(path string) func(*http.Transport) {
	return func(t *http.Transport) {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
}

// answer is what a server answered.
type answer struct {
	status int
	kind   wire.Kind // of a refusal
	body   string
	header http.Header
	proto  int
}

// send sends a request. Headers are "Name: value"; Host is one of them.
func send(t *testing.T, c *http.Client, method, url, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	check(t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	got, err := c.Do(r)
	check(t, err)
	return readAnswer(t, got)
}

func readAnswer(t *testing.T, got *http.Response) answer {
	t.Helper()
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	check(t, err)
	a := answer{status: got.StatusCode, body: string(text), header: got.Header, proto: got.ProtoMajor}
	if a.status >= 400 {
		var r wire.Refusal
		if err := json.Unmarshal(text, &r); err != nil || got.Header.Get("Content-Type") != wire.ProblemJSON {
			t.Errorf("status %d with %q is no refusal: %v", a.status, text, err)
		}
		a.kind = r.Kind()
		if a.kind == "" || r.Status != a.status {
			t.Errorf("the refusal is %+v with status %d", r, a.status)
		}
	}
	return a
}

// newAuth opens an auth file with the callers, and returns their tokens by name. A name
// in the certificate of a caller is behind an equals sign.
func newAuth(t *testing.T, names ...string) (f *access.File, tokens map[string]string) {
	t.Helper()
	tokens = map[string]string{}
	var entries []string
	for _, name := range names {
		name, certificate, _ := strings.Cut(name, "=")
		token, entry, err := access.NewToken(name)
		check(t, err)
		if certificate != "" {
			entry = strings.Replace(entry, `"rules"`, `"certificateNames":["`+certificate+`"],"rules"`, 1)
		}
		tokens[name] = token
		entries = append(entries, entry)
	}
	path := filepath.Join(t.TempDir(), "auth.json")
	check(t, os.WriteFile(path, []byte(`{"callers":[`+strings.Join(entries, ",")+`]}`), 0o600))
	f, err := access.OpenFile(path, nil)
	check(t, err)
	t.Cleanup(f.Close)
	return f, tokens
}
