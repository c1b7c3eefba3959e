package httpfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/fencetest"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/memlock"
)

// A Handler behaves like the fences of databases: over a real connection, and with each
// store of tokens.
func TestFence(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
		a := &account{value: 1}
		newest := new(httpfence.Memory)
		server := serve(t, handler(t, func(_ http.ResponseWriter, r *http.Request) {
			if text, _ := io.ReadAll(r.Body); len(text) > 0 {
				n, _ := strconv.ParseInt(string(text), 10, 64)
				a.set(n)
			}
		}, httpfence.Options{Newest: newest}))
		send := func(ctx context.Context, body string, token uint64) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set(httpfence.Header, httpfence.Token{Resource: "the place", Value: token}.String())
			resp, err := server.Client().Do(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			return map[int]error{
				http.StatusOK: nil, http.StatusBadRequest: holdfast.ErrInvalid, http.StatusPreconditionFailed: holdfast.ErrStale,
			}[resp.StatusCode]
		}
		return &fencetest.Harness{
			Claim: func(ctx context.Context, token uint64) error { return send(ctx, "", token) },
			Write: func(ctx context.Context, value int64, token uint64) error { return send(ctx, fmt.Sprint(value), token) },
			Value: func(*testing.T) int64 { return a.get() },
			Seen: func(t *testing.T) uint64 {
				seen, err := newest.Load(t.Context(), "the place")
				if err != nil {
					t.Error(err)
				}
				return seen
			},
		}
	})
}

func TestNeedsToken(t *testing.T) {
	h := handler(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, httpfence.Options{})
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "BREW"} {
		has(t, ask(h, method, "/"), http.StatusPreconditionRequired, "missing")
		has(t, ask(h, method, "/", "5"), http.StatusTeapot, "")
		has(t, ask(h, method, "/", "5; resource=the%20place"), http.StatusTeapot, "")
		has(t, ask(h, method, "/", "4"), http.StatusPreconditionFailed, "stale")
		for _, headers := range [][]string{{""}, {"0"}, {"5, 5"}, {"5", "5"}, {"5", ""}, {"5; resource=another"}} {
			has(t, ask(h, method, "/", headers...), http.StatusBadRequest, "malformed")
		}
	}
}

func TestRefusal(t *testing.T) {
	h := handler(t, func(http.ResponseWriter, *http.Request) { t.Error("it is served") }, httpfence.Options{})
	resp := ask(h, "GET", "/")
	var body struct {
		Title, Detail string
		Status        int
	}
	if err := json.Unmarshal([]byte(resp.text), &body); err != nil {
		t.Fatal(err)
	}
	if body.Status != 428 || body.Title != "Precondition Required" || !strings.Contains(body.Detail, `"the place"`) {
		t.Errorf("body %+v", body)
	}
	for name, want := range map[string]string{"Content-Type": "application/problem+json", "Cache-Control": "no-store", "Vary": httpfence.Header} {
		if got := resp.header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Nobody is told the newest token, because he could send it.
func TestNewestIsHidden(t *testing.T) {
	h := handler(t, func(http.ResponseWriter, *http.Request) {}, httpfence.Options{})
	has(t, ask(h, "GET", "/", "987654321"), http.StatusOK, "")
	resp := ask(h, "GET", "/", "5")
	if all := fmt.Sprint(resp.header, resp.text); strings.Contains(all, "987654321") {
		t.Error(all)
	}
}

func TestNoResource(t *testing.T) {
	for _, resource := range []string{"", "a\x00b", "\xff", strings.Repeat("a", driver.MaxName+1)} {
		h := handler(t, func(http.ResponseWriter, *http.Request) { t.Error("it is served") },
			httpfence.Options{Resource: func(*http.Request) string { return resource }})
		has(t, ask(h, "GET", "/", "5"), http.StatusBadRequest, "malformed")
	}
}

// The service gets the features of request and writer that it needs, and resources are
// independent.
func TestBehindMux(t *testing.T) {
	var served []httpfence.Token
	h := handler(t, func(w http.ResponseWriter, r *http.Request) {
		token, ok := httpfence.TokenOf(r.Context())
		if !ok || token.Resource != "account "+r.PathValue("id") || r.Pattern != "PUT /accounts/{id}" {
			t.Errorf("token %v, id %q, pattern %q", token, r.PathValue("id"), r.Pattern)
		}
		served = append(served, token)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		if _, ok := w.(http.Hijacker); !ok {
			t.Errorf("%T cannot be hijacked", w)
		}
	}, httpfence.Options{Resource: func(r *http.Request) string { return "account " + r.PathValue("id") }})
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", h)
	mux.HandleFunc("GET /accounts/{id}", func(_ http.ResponseWriter, r *http.Request) {
		if token, ok := httpfence.TokenOf(r.Context()); ok {
			t.Errorf("token %v", token)
		}
	})
	server := serve(t, mux)
	send := func(method, path, token string, status int, reason string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set(httpfence.Header, token)
		}
		resp, err := server.Client().Do(r)
		has(t, read(t, resp, err), status, reason)
	}
	send("PUT", "/accounts/17", "9", http.StatusOK, "")
	send("PUT", "/accounts/18", "8", http.StatusOK, "")
	send("PUT", "/accounts/17", "8", http.StatusPreconditionFailed, "stale")
	send("GET", "/accounts/17", "", http.StatusOK, "")
	if len(served) != 2 || served[0].Value != 9 || served[1].Value != 8 {
		t.Errorf("served %v", served)
	}
}

func TestTrust(t *testing.T) {
	asked := 0
	var answer error
	newest := new(httpfence.Memory)
	h := handler(t, func(http.ResponseWriter, *http.Request) {}, httpfence.Options{
		Newest: newest,
		Trust:  func(_ *http.Request, token httpfence.Token) error { asked++; return answer },
	})
	for _, try := range []struct {
		token  string
		answer error
		status int
		reason string
		asked  int
		seen   uint64
	}{
		{"5", nil, http.StatusOK, "", 1, 5},
		{"5", errors.New("not asked"), http.StatusOK, "", 0, 5},
		{"4", errors.New("not asked"), http.StatusPreconditionFailed, "stale", 0, 5},
		{"9007199254740991", httpfence.ErrUntrusted, http.StatusForbidden, "untrusted", 1, 5},
		{"9007199254740991", fmt.Errorf("asked: %w", holdfast.ErrStale), http.StatusPreconditionFailed, "stale", 1, 5},
		{"9007199254740991", errors.New("password=secret"), http.StatusServiceUnavailable, "unknown", 1, 5},
		{"9007199254740991", holdfast.ErrClosed, http.StatusServiceUnavailable, "unknown", 1, 5},
		{"9007199254740991", holdfast.ErrUnusable, http.StatusInternalServerError, "unusable", 1, 5},
		{"9007199254740991", holdfast.ErrDamaged, http.StatusInternalServerError, "unusable", 1, 5},
		{"5", errors.New("not asked"), http.StatusOK, "", 0, 5},
		{"6", nil, http.StatusOK, "", 1, 6},
	} {
		asked, answer = 0, try.answer
		resp := ask(h, "POST", "/", try.token)
		if strings.Contains(resp.text, "secret") {
			t.Errorf("the client is told: %s", resp.text)
		}
		has(t, resp, try.status, try.reason)
		if seen, _ := newest.Load(t.Context(), "the place"); asked != try.asked || seen != try.seen {
			t.Errorf("token %s: asked %d times, then %d is the newest; want %d and %d", try.token, asked, seen, try.asked, try.seen)
		}
	}
}

// Held accepts only the tokens of live exclusive holds.
func TestHeld(t *testing.T) {
	client := newClient(t)
	trust := httpfence.Held(client)
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	check := func(what, resource string, token uint64, want error) {
		t.Helper()
		if err := trust(r, httpfence.Token{Resource: resource, Value: token}); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", what, err, want)
		}
	}
	hold := lock(t, client, "the place")
	check("a live hold", "the place", hold.Token(), nil)
	check("no hold", "the place", hold.Token()+1, holdfast.ErrStale)
	check("no hold", "the place", driver.MaxToken, holdfast.ErrStale)
	check("a hold of something else", "another", hold.Token(), holdfast.ErrStale)
	if err := hold.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("a released hold", "the place", hold.Token(), holdfast.ErrStale)

	hold = lock(t, client, "the place")
	if err := hold.UnlockAfter(t.Context(), holdfast.MaxTTL); err != nil {
		t.Fatal(err)
	}
	check("a hold released for later", "the place", hold.Token(), holdfast.ErrStale)

	shared, err := client.RLock(t.Context(), "shared", nil)
	if err != nil {
		t.Fatal(err)
	}
	check("a shared hold", "shared", shared.Token(), holdfast.ErrStale)
	client.Close()
	check("a closed Client", "the place", 1, holdfast.ErrClosed)
}

func TestInvalidOptions(t *testing.T) {
	service := http.NotFoundHandler()
	for name, opts := range map[string]*httpfence.Options{
		"none":        nil,
		"no resource": {Newest: new(httpfence.Memory), Trust: trusting},
		"no newest":   {Resource: place, Trust: trusting},
		"no trust":    {Resource: place, Newest: new(httpfence.Memory)},
		"patience":    {Resource: place, Newest: new(httpfence.Memory), Trust: trusting, Patience: -1},
	} {
		if _, err := httpfence.New(service, opts); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := httpfence.New(nil, &httpfence.Options{Resource: place, Newest: new(httpfence.Memory), Trust: trusting}); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no service: error %v", err)
	}
}

// A service that checks the token again answers like the fence.
func TestRefuse(t *testing.T) {
	for reason, err := range map[string]error{
		"stale":    fmt.Errorf("fence: %w: the row has seen token 7", holdfast.ErrStale),
		"unusable": holdfast.ErrDamaged,
		"unknown":  errors.New("token 7"),
	} {
		w := httptest.NewRecorder()
		ofService := []string{"Content-Length", "Content-Encoding", "ETag", "Last-Modified"}
		for _, name := range ofService {
			w.Header().Set(name, "3")
		}
		httpfence.Refuse(w, err)
		if strings.Contains(w.Body.String(), "7") {
			t.Errorf("%s: body %s", reason, w.Body)
		}
		for _, name := range ofService {
			if w.Header().Get(name) != "" {
				t.Errorf("%s: header %v", reason, w.Header())
			}
		}
		has(t, answer{w.Code, w.Header(), w.Body.String()}, map[string]int{"stale": 412, "unusable": 500, "unknown": 503}[reason], reason)
	}
}

// masked is a store that shows no tokens, like a store behind a server for most callers.
type masked struct{ driver.Store }

func (m masked) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		for s, err := range m.Store.List(ctx, f) {
			s.Token = 0
			if !yield(s, err) {
				return
			}
		}
	}
}

// A hidden token does not mean that the hold has ended.
func TestHeldNeedsTokens(t *testing.T) {
	client := holdfast.New(masked{memlock.New(nil)}, nil)
	defer client.Close()
	hold := lock(t, client, "r")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	trust := httpfence.Held(client)
	if err := trust(r, httpfence.Token{Resource: "r", Value: hold.Token()}); !errors.Is(err, holdfast.ErrUnusable) {
		t.Errorf("error %v", err)
	}
	if err := hold.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := trust(r, httpfence.Token{Resource: "r", Value: hold.Token()}); !errors.Is(err, holdfast.ErrStale) {
		t.Errorf("after its end: error %v", err)
	}
}
