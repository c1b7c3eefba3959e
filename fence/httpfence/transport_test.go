package httpfence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
)

// transport returns a Client whose requests to the servers get a token.
func transport(t testing.TB, opts httpfence.TransportOptions, servers ...*httptest.Server) *http.Client {
	t.Helper()
	for _, server := range servers {
		opts.Origins = append(opts.Origins, server.URL)
	}
	rt, err := httpfence.NewTransport(&opts)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: rt}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// roundTripper is a func that implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func post(t testing.TB, ctx context.Context, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The service gets the token of the innermost lock under which the request is sent.
func TestTransport(t *testing.T) {
	locks := newClient(t)
	var got []string
	server := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Values(httpfence.Header) }))
	client := transport(t, httpfence.TransportOptions{}, server)
	do := func(ctx context.Context, want ...string) {
		t.Helper()
		r := post(t, ctx, server.URL, nil)
		r.Header["holdfast-token"] = []string{"5"}
		r.Header.Set(httpfence.Header, "6")
		before := r.Header.Clone()
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("the service got %q, want %q", got, want)
		}
		if len(r.Header) != len(before) || r.Header.Get(httpfence.Header) != "6" {
			t.Errorf("the caller's request has header %v now", r.Header)
		}
	}
	do(t.Context())
	err := locks.Do(t.Context(), "a, b", nil, func(ctx context.Context) error {
		outer := holdfast.HoldOf(ctx)
		do(ctx, httpfence.Token{Resource: "a, b", Value: outer.Token()}.String())
		return locks.Do(ctx, "inner", nil, func(ctx context.Context) error {
			do(ctx, httpfence.Token{Resource: "inner", Value: holdfast.HoldOf(ctx).Token()}.String())
			client = transport(t, httpfence.TransportOptions{Hold: func(*http.Request) *holdfast.Hold { return outer }}, server)
			do(ctx, httpfence.Token{Resource: "a, b", Value: outer.Token()}.String())
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// A token is not sent to other hosts, however a request gets there. The body is sent
// again when a redirect requires it.
func TestRedirects(t *testing.T) {
	locks := newClient(t)
	hold := lock(t, locks, "the place")
	ctx, cancel := hold.Bind(t.Context())
	defer cancel()
	var tokens, texts []string
	note := func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		texts = append(texts, string(text))
		tokens = append(tokens, r.Header.Get(httpfence.Header))
	}
	foreign := serve(t, http.HandlerFunc(note))
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(w, r)
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, foreign.URL, http.StatusTemporaryRedirect)
		case "/inside":
			http.Redirect(w, r, "/there", http.StatusPermanentRedirect)
		}
	}))
	client := transport(t, httpfence.TransportOptions{}, server)
	token := httpfence.Token{Resource: "the place", Value: hold.Token()}.String()
	for url, want := range map[string]string{
		server.URL:             token,
		server.URL + "/inside": token + "|" + token,
		server.URL + "/away":   token + "|",
		foreign.URL:            "",
		strings.Replace(foreign.URL, "127.0.0.1", "localhost", 1): "",
		strings.Replace(server.URL, "127.0.0.1", "localhost", 1):  "",
	} {
		tokens, texts = nil, nil
		r := post(t, ctx, url, strings.NewReader("body"))
		r.Header.Set(httpfence.Header, "5") // must not be sent anywhere
		resp, err := client.Do(r)
		if err != nil {
			t.Error(url, err)
			continue
		}
		resp.Body.Close()
		if got := strings.Join(tokens, "|"); got != want {
			t.Errorf("%s: tokens %q, want %q", url, got, want)
		}
		for _, text := range texts {
			if text != "body" {
				t.Errorf("%s: body %q", url, text)
			}
		}
	}
}

// closer is a body that records whether it was closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

// A refusal as stale is an error. Other refusals, and the service's own answers with that
// status, are responses.
func TestStaleIsAnError(t *testing.T) {
	locks := newClient(t)
	hold := lock(t, locks, "the place")
	ctx, cancel := hold.Bind(t.Context())
	defer cancel()
	for _, answer := range []struct {
		status int
		reason string
		want   error
	}{
		{http.StatusPreconditionFailed, "stale", holdfast.ErrStale},
		{http.StatusPreconditionFailed, "", nil},
		{http.StatusOK, "stale", nil},
		{http.StatusPreconditionRequired, "missing", nil},
		{http.StatusServiceUnavailable, "unknown", nil},
	} {
		text := &closer{Reader: strings.NewReader("why")}
		client := transport(t, httpfence.TransportOptions{
			Origins: []string{"https://Service.example.com/"},
			Base: roundTripper(func(r *http.Request) (*http.Response, error) {
				resp := &http.Response{StatusCode: answer.status, Header: make(http.Header), Body: text, Request: r}
				resp.Header.Set(httpfence.RefusedHeader, answer.reason)
				return resp, nil
			}),
		})
		resp, err := client.Do(post(t, ctx, "https://service.example.com:443/x", nil))
		if !errors.Is(err, answer.want) || (err == nil) != (resp != nil) {
			t.Errorf("%d %s: error %v, want %v", answer.status, answer.reason, err, answer.want)
		}
		if text.closed != (answer.want != nil) {
			t.Errorf("%d %s: body closed: %v", answer.status, answer.reason, text.closed)
		}
		if resp != nil {
			resp.Body.Close()
		}
	}
}

// Nothing is sent under a hold that has ended, or that has no token.
func TestNotSent(t *testing.T) {
	locks := newClient(t)
	ended := lock(t, locks, "ended")
	if err := ended.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	taken := lock(t, locks, "taken")
	if _, err := locks.Admin().ForceRelease(t.Context(), "taken", taken.ID()); err != nil {
		t.Fatal(err)
	}
	shared, err := locks.RLock(t.Context(), "shared", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		hold *holdfast.Hold
		want error
	}{{ended, holdfast.ErrReleased}, {taken, holdfast.ErrLost}, {shared, holdfast.ErrInvalid}} {
		client := transport(t, httpfence.TransportOptions{
			Origins: []string{"http://service.example.com"},
			Hold:    func(*http.Request) *holdfast.Hold { return try.hold },
			Base: roundTripper(func(*http.Request) (*http.Response, error) {
				t.Error("it is sent")
				return nil, errors.ErrUnsupported
			}),
		})
		body := &closer{Reader: strings.NewReader("body")}
		_, err := client.Do(post(t, t.Context(), "http://service.example.com", body)) //nolint:bodyclose // there is no body
		if !errors.Is(err, try.want) || !body.closed {
			t.Errorf("error %v, want %v; body closed: %v", err, try.want, body.closed)
		}
	}
}

func TestOrigins(t *testing.T) {
	for _, origin := range []string{"", "example.com", "//example.com", "ftp://example.com", "https://", "https://example.com/path", "https://user@example.com", "https://example.com?q", "https://a b", "*", "HTTPS:example.com", "https://example.com//", "https://example.com#"} {
		if _, err := httpfence.NewTransport(&httpfence.TransportOptions{Origins: []string{origin}}); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%q: error %v", origin, err)
		}
	}
	for origin, want := range map[string]string{"https://bücher.example": "xn--", "https://a.example.": "dot", "https://a.example.:443": "dot"} {
		_, err := httpfence.NewTransport(&httpfence.TransportOptions{Origins: []string{origin}})
		if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", origin, err)
		}
	}
	for _, origin := range []string{"HTTPS://Example.com", "https://xn--bcher-kva.example/", "http://[::1]"} {
		if _, err := httpfence.NewTransport(&httpfence.TransportOptions{Origins: []string{origin}}); err != nil {
			t.Errorf("%q: error %v", origin, err)
		}
	}
	for _, opts := range []*httpfence.TransportOptions{nil, {}} {
		if _, err := httpfence.NewTransport(opts); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%v: error %v", opts, err)
		}
	}
}
