package httplock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// reply is an answer of a server, or of somebody on the way.
type reply struct {
	status  int
	media   string
	id      string
	body    string
	headers http.Header
	cut     bool // the connection breaks off after the body
}

func (r reply) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", r.media)
	if r.id != "" {
		h.Set(wire.StoreHeader, r.id)
	}
	for name, values := range r.headers {
		h[name] = append(h[name], values...)
	}
	if r.cut {
		h.Set("Content-Length", fmt.Sprint(len(r.body)+1))
	}
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, r.body)
	if r.cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// ours is a reply as the server writes it.
func ours(v any) reply {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	r := reply{status: http.StatusOK, media: wire.JSON, id: testStoreID, body: string(text)}
	if refusal, is := v.(wire.Refusal); is {
		r.status, r.media = refusal.Status, wire.ProblemJSON
	}
	return r
}

// answering returns a store on a server that always sends this reply.
func answering(t *testing.T, r reply) *Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		r.write(w)
	}))
	t.Cleanup(server.Close)
	return dial(t, server.URL, nil)
}

var (
	request = driver.AcquireRequest{
		Resource: "r", LockID: "a", HoldID: driver.HoldID{1}, TTL: time.Second,
	}
	grant = driver.Grant{Token: 7, Left: time.Second}
	ref   = driver.HoldRef{Resource: "r", LockID: "a", HoldID: driver.HoldID{1}, Token: 7}
)

// calls are all calls of the store, one request each, by name.
var calls = map[string]func(ctx context.Context, s *Store) error{
	"acquire": func(ctx context.Context, s *Store) error {
		_, err := s.Acquire(ctx, request)
		return err
	},
	"renew": func(ctx context.Context, s *Store) error {
		rs, err := s.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: time.Second}})
		if err == nil {
			err = rs[0].Err
		}
		return err
	},
	"release":                          releasing(driver.ReleaseRequest{HoldRef: ref}),
	"forced release":                   releasing(driver.ReleaseRequest{HoldRef: ref, Reason: "stuck"}),
	"forced release of whichever hold": releasing(driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: "r", LockID: "a"}, Reason: "stuck"}),
	"list":                             func(ctx context.Context, s *Store) error { return whole(s.List(ctx, driver.Filter{})) },
	"waiters":                          func(ctx context.Context, s *Store) error { return whole(s.Waiters(ctx, driver.Filter{})) },
	"sweep": func(ctx context.Context, s *Store) error {
		_, err := s.Sweep(ctx, driver.SweepRequest{Idle: time.Hour})
		return err
	},
	"watch": func(ctx context.Context, s *Store) error {
		_, err := s.Watch(ctx, "r")
		return err
	},
	"init": func(ctx context.Context, s *Store) error { return s.Init(ctx) },
}

func releasing(q driver.ReleaseRequest) func(ctx context.Context, s *Store) error {
	return func(ctx context.Context, s *Store) error {
		rs, err := s.Release(ctx, []driver.ReleaseRequest{q})
		if err == nil {
			err = rs[0].Err
		}
		return err
	}
}

// whole returns the error of a list.
func whole[T any](list iter.Seq2[T, error]) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

func isDefinite(err error) bool {
	return err == nil || slices.ContainsFunc(
		[]error{driver.ErrHeld, driver.ErrLost, driver.ErrInvalid, driver.ErrUnusable, driver.ErrDamaged, driver.ErrUnsupported},
		func(named error) bool { return errors.Is(err, named) })
}

// An answer from somebody else, or an incomplete one, has no outcome.
func TestUnexpectedAnswers(t *testing.T) {
	held := wire.HeldRefusal(&driver.HeldError{Resource: "r", Position: driver.NoPlace, RetryAfter: time.Second})
	held.HoldID = request.HoldID
	ofNobody := wire.HeldRefusal(&driver.HeldError{Resource: "r", Position: driver.NoPlace, RetryAfter: time.Second})
	elsewhere := wire.HeldRefusal(&driver.HeldError{Resource: "s", Position: driver.NoPlace, RetryAfter: driver.Unknown})
	elsewhere.HoldID = request.HoldID
	change := func(r reply, change func(*reply)) reply { change(&r); return r }
	answers := map[string]reply{
		"portal":                     {status: 200, media: "text/html", body: "<html>log in</html>"},
		"portal with JSON":           {status: 200, media: wire.JSON, body: `{"login":"/"}`},
		"firewall":                   {status: 409, media: "text/html", body: "<html>conflict</html>"},
		"firewall with JSON":         {status: 403, media: wire.JSON, body: `{"type":"urn:holdfast:denied","status":403}`},
		"firewall with a problem":    {status: 403, media: wire.ProblemJSON, body: `{"type":"about:blank","status":403}`},
		"deploy":                     {status: 404, media: "text/plain", body: "404 page not found"},
		"balancer 502":               {status: 502, media: "text/html", body: "bad gateway"},
		"balancer 503":               {status: 503, media: "text/html"},
		"balancer 504":               {status: 504, media: "text/html"},
		"limiter 429":                {status: 429, media: "text/plain"},
		"login 401":                  {status: 401, media: "text/html", headers: http.Header{"Www-Authenticate": {"Basic"}}},
		"redirect":                   {status: 307, media: "text/html", headers: http.Header{"Location": {"/elsewhere"}}},
		"moved":                      {status: 301, media: "text/html", headers: http.Header{"Location": {"http://127.0.0.1:1/"}}},
		"no content":                 {status: 204, id: testStoreID},
		"created":                    {status: 201, media: wire.JSON, id: testStoreID, body: `{}`},
		"nothing":                    {status: 200, media: wire.JSON, id: testStoreID},
		"null":                       {status: 200, media: wire.JSON, id: testStoreID, body: "null"},
		"an array":                   {status: 200, media: wire.JSON, id: testStoreID, body: "[]"},
		"half a body":                {status: 200, media: wire.JSON, id: testStoreID, body: `{"resource":"r"`},
		"two bodies":                 {status: 200, media: wire.JSON, id: testStoreID, body: `{} {}`},
		"not UTF-8":                  {status: 200, media: wire.JSON, id: testStoreID, body: "{\"resource\":\"\xff\"}"},
		"no type":                    {status: 200, id: testStoreID, body: `{}`},
		"a refusal with 200":         change(ours(held), func(r *reply) { r.status = 200 }),
		"a refusal of no store":      change(ours(wire.NewRefusal(wire.KindDenied, "")), func(r *reply) { r.id = "" }),
		"a refusal of two stores":    change(ours(wire.NewRefusal(wire.KindDenied, "")), func(r *reply) { r.headers = http.Header{wire.StoreHeader: {"b"}} }),
		"a refusal of store a,b":     change(ours(wire.NewRefusal(wire.KindDenied, "")), func(r *reply) { r.id = "a,b" }),
		"a refusal of a long store":  change(ours(wire.NewRefusal(wire.KindDenied, "")), func(r *reply) { r.id = strings.Repeat("a", 200) }),
		"a refusal as plain JSON":    change(ours(wire.NewRefusal(wire.KindDenied, "")), func(r *reply) { r.media = wire.JSON }),
		"a refusal, other status":    change(ours(wire.NewRefusal(wire.KindDenied, "")), func(r *reply) { r.status = 409 }),
		"a refusal of a newer kind":  change(ours(wire.NewRefusal(wire.KindDenied, "")), func(r *reply) { r.body = `{"type":"urn:holdfast:newer","status":403}` }),
		"a refusal that is cut":      change(ours(wire.NewRefusal(wire.KindInvalid, "")), func(r *reply) { r.cut = true }),
		"half a refusal":             change(ours(wire.NewRefusal(wire.KindInvalid, "")), func(r *reply) { r.body = r.body[:len(r.body)-1] }),
		"held without a reason":      ours(wire.NewRefusal(wire.KindHeld, "")),
		"held, another resource":     ours(elsewhere),
		"held, another hold":         change(ours(held), func(r *reply) { r.body = strings.Replace(r.body, `"holdId":"01`, `"holdId":"02`, 1) }),
		"held, no hold":              ours(ofNobody),
		"held, position 0":           change(ours(held), func(r *reply) { r.body = strings.Replace(r.body, `"position":null`, `"position":0`, 1) }),
		"held, less than no waiters": change(ours(held), func(r *reply) { r.body = strings.Replace(r.body, `"waiters":0`, `"waiters":-1`, 1) }),
		"held, negative time":        change(ours(held), func(r *reply) { r.body = strings.Replace(r.body, `"retryAfterMs":1000`, `"retryAfterMs":-7`, 1) }),
		"held by no resource":        change(ours(held), func(r *reply) { r.body = strings.Replace(r.body, `"holders":[]`, `"holders":[{}]`, 1) }),
		"behind nobody":              change(ours(held), func(r *reply) { r.body = strings.Replace(r.body, `"ahead":[]`, `"ahead":[{}]`, 1) }),
		"unknown":                    ours(wire.NewRefusal(wire.KindUnknown, "no answer")),
		"draining":                   ours(wire.NewRefusal(wire.KindDraining, "ends")),
		"busy":                       ours(wire.NewRefusal(wire.KindBusy, "too many")),
		"compressed":                 change(ours(wire.NewRefusal(wire.KindInvalid, "")), func(r *reply) { r.headers = http.Header{"Content-Encoding": {"gzip"}} }),
		"long headers":               {status: 200, media: wire.JSON, id: testStoreID, body: `{}`, headers: http.Header{"X": {strings.Repeat("x", 2*maxHeader)}}},
	}
	for name, r := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for call, do := range calls {
				// An empty object is the answer to a sweep that found nothing.
				err := do(t.Context(), answering(t, r))
				if isDefinite(err) {
					t.Errorf("%s: %v, which is definite", call, err)
				}
			}
		})
	}
}

// A server that does not know its store yet says why, and nothing is known by that.
func TestUnpreparedServer(t *testing.T) {
	r := ours(wire.NewRefusal(wire.KindUnknown, "it could not be prepared"))
	r.id = ""
	for call, do := range calls {
		if err := do(t.Context(), answering(t, r)); isDefinite(err) || !strings.HasSuffix(err.Error(), "or is not ready: it could not be prepared") {
			t.Errorf("%s: %v", call, err)
		}
	}
	r.status = http.StatusForbidden // it is no problem of ours
	if err := calls["sweep"](t.Context(), answering(t, r)); isDefinite(err) || strings.Contains(err.Error(), "prepared") {
		t.Error(err)
	}
}

// Unexpected answers that only one call can get.
func TestUnexpectedAnswersToOneCall(t *testing.T) {
	granted := wire.GrantOf(request, grant)
	changed := func(change func(*wire.Grant)) reply { g := granted; change(&g); return ours(g) }
	negative, other := wire.Millis(-7), driver.HoldID{2}
	results := func(rs ...any) reply { return ours(map[string]any{"results": rs}) }
	stream := func(text string) reply {
		return reply{status: 200, media: wire.NDJSON, id: testStoreID, body: text}
	}
	traits := wire.TraitsOf(driver.Traits{Name: "n", Reach: driver.Network, Fencing: driver.FencingStrict})
	events := reply{status: 200, media: wire.Events, id: testStoreID, body: "event: ready\n\n"}
	for _, c := range []struct {
		call, name string
		reply      reply
	}{
		{"acquire", "another resource", changed(func(g *wire.Grant) { g.Resource = "s" })},
		{"acquire", "another hold", changed(func(g *wire.Grant) { g.HoldID = driver.HoldID{2} })},
		{"acquire", "another lock ID", changed(func(g *wire.Grant) { g.LockID = "b" })},
		{"acquire", "another mode", changed(func(g *wire.Grant) { g.Mode = driver.Shared })},
		{"acquire", "a token that is too large", changed(func(g *wire.Grant) { g.Token = driver.MaxToken + 1 })},
		{"acquire", "a negative time", changed(func(g *wire.Grant) { g.TTLMs = &negative })},
		{"acquire", "a long answer", func() reply { r := ours(granted); r.body += strings.Repeat(" ", maxAnswer); return r }()},
		{"acquire", "no store", func() reply { r := ours(granted); r.id = ""; return r }()},
		{"acquire", "cut", func() reply { r := ours(granted); r.cut = true; return r }()},
		{"acquire", "a file to download", func() reply { r := ours(granted); r.media = "application/octet-stream"; return r }()},
		{"renew", "another hold", results(wire.RenewResult{HoldID: other, Outcome: wire.Renewed})},
		{"renew", "another hold is lost", results(wire.RenewResult{HoldID: other, Outcome: wire.Lost})},
		{"renew", "another hold is invalid", results(wire.RenewResult{HoldID: other, Outcome: wire.Invalid})},
		{"renew", "no hold", results(wire.RenewResult{Outcome: wire.Lost})},
		{"release", "another hold", results(wire.ReleaseResult{HoldID: other, Outcome: wire.Released})},
		{"release", "another hold is denied", results(wire.ReleaseResult{HoldID: other, Outcome: wire.Denied})},
		{"release", "no hold", results(wire.ReleaseResult{Outcome: wire.Released})},
		{"release", "a place, too", results(wire.ReleaseResult{HoldID: ref.HoldID, PlaceID: driver.PlaceID(other), Outcome: wire.Released})},
		{"forced release", "another hold", ours(wire.ReleaseResult{HoldID: other, Outcome: wire.Released})},
		{"renew", "no results", results()},
		{"renew", "two results", results(wire.RenewResult{HoldID: ref.HoldID, Outcome: wire.Renewed}, wire.RenewResult{HoldID: ref.HoldID, Outcome: wire.Renewed})},
		{"renew", "no outcome", results(wire.RenewResult{HoldID: ref.HoldID})},
		{"renew", "an outcome of a release", results(wire.RenewResult{HoldID: ref.HoldID, Outcome: wire.Released})},
		{"renew", "a newer outcome", results(wire.RenewResult{HoldID: ref.HoldID, Outcome: "newer"})},
		{"renew", "unknown", results(wire.RenewResult{HoldID: ref.HoldID, Outcome: wire.Unknown, Detail: "no answer"})},
		{"renew", "a negative time", results(wire.RenewResult{HoldID: ref.HoldID, Outcome: wire.Renewed, TTLMs: &negative})},
		{"renew", "less than no waiters", results(wire.RenewResult{HoldID: ref.HoldID, Outcome: wire.Renewed, Waiters: -1})},
		{"renew", "results that are none", results(1)},
		{"release", "no results", results()},
		{"release", "two results", results(wire.ReleaseResult{HoldID: ref.HoldID, Outcome: wire.Released}, wire.ReleaseResult{HoldID: ref.HoldID, Outcome: wire.Released})},
		{"release", "no outcome", results(wire.ReleaseResult{HoldID: ref.HoldID, Found: true})},
		{"release", "lost", results(wire.ReleaseResult{HoldID: ref.HoldID, Outcome: wire.Lost})},
		{"release", "an outcome of a renewal", results(wire.ReleaseResult{HoldID: ref.HoldID, Outcome: wire.Renewed})},
		{"release", "unknown", results(wire.ReleaseResult{HoldID: ref.HoldID, Outcome: wire.Unknown})},
		{"forced release", "no outcome", ours(wire.ReleaseResult{HoldID: ref.HoldID, Found: true})},
		{"forced release", "a batch", results(wire.ReleaseResult{HoldID: ref.HoldID, Outcome: wire.Released})},
		{"sweep", "negative sweep count", ours(wire.SweepAnswer{Holds: -1})},
		{"list", "an empty body", stream("")},
		{"list", "no end", stream(`{"resource":"r","mode":"shared"}` + "\n")},
		{"list", "half an end", stream(`{"end":{"count":0}`)},
		{"list", "end and error", stream(`{"end":{"count":0},"error":{}}`)},
		{"list", "an entry as end", stream(`{"resource":"r","mode":"shared","end":{"count":0}}`)},
		{"list", "an end without a count", stream(`{"end":null}`)},
		{"list", "another count", stream(`{"resource":"r","mode":"shared"}` + "\n" + `{"end":{"count":2}}` + "\n")},
		{"list", "an error", stream(`{"error":{"type":"urn:holdfast:unknown","status":503}}` + "\n")},
		{"list", "an error of another kind", stream(`{"error":{"type":"x","status":500}}` + "\n")},
		{"list", "an entry that is none", stream(`{"resource":"r","mode":"shared","ttlMs":-7}` + "\n" + `{"end":{"count":1}}` + "\n")},
		{"list", "an entry without a name", stream(`{"mode":"shared"}` + "\n" + `{"end":{"count":1}}` + "\n")},
		{"list", "half an entry", stream(`{"resource":"r"` + "\n" + `{"end":{"count":1}}` + "\n")},
		{"list", "a long line", stream(`{"resource":"` + strings.Repeat("r", maxLine) + `"}` + "\n" + `{"end":{"count":1}}` + "\n")},
		{"list", "plain JSON", ours(wire.HoldList{})},
		{"list", "a cut after the end", func() reply { r := stream(`{"end":{"count":0}}` + "\n"); r.cut = true; return r }()},
		{"waiters", "a waiter that is none", stream(`{"resource":"r","mode":"shared","before":-1}` + "\n" + `{"end":{"count":1}}` + "\n")},
		{"init", "no reach", func() reply { t := traits; t.Reach = ""; return ours(t) }()},
		{"init", "no fencing", func() reply { t := traits; t.Fencing = ""; return ours(t) }()},
		{"watch", "no events", func() reply { r := events; r.body = ""; return r }()},
		{"watch", "half an event", func() reply { r := events; r.body = "event: ready\n"; return r }()},
		{"watch", "a signal first", func() reply { r := events; r.body = "event: signal\n\n"; return r }()},
		{"watch", "a long line", func() reply { r := events; r.body = strings.Repeat(":", maxEventLine+1); return r }()},
		{"watch", "no store", func() reply { r := events; r.id = ""; return r }()},
	} {
		t.Run(c.call+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, c.reply)
			s.traits.Store(&driver.Traits{Fencing: driver.FencingStrict})
			if err := calls[c.call](t.Context(), s); isDefinite(err) {
				t.Errorf("%v, which is definite", err)
			}
		})
	}
	t.Run("a grant without a token", func(t *testing.T) {
		s := answering(t, changed(func(g *wire.Grant) { g.Token = 0 }))
		if _, err := s.Acquire(t.Context(), request); err != nil {
			t.Errorf("before Init: %v", err)
		}
		s.traits.Store(&driver.Traits{Fencing: driver.FencingStrict})
		if _, err := s.Acquire(t.Context(), request); isDefinite(err) {
			t.Errorf("%v, which is definite", err)
		}
	})
}

// The refusals of the server become the errors that they stand for.
func TestRefusals(t *testing.T) {
	for kind, want := range map[wire.Kind]error{
		wire.KindInvalid: driver.ErrInvalid, wire.KindTooLarge: driver.ErrInvalid, wire.KindMediaType: driver.ErrInvalid,
		wire.KindAnonymous: driver.ErrUnusable, wire.KindDenied: driver.ErrUnusable, wire.KindMisdirected: driver.ErrUnusable,
		wire.KindUnusable: driver.ErrUnusable, wire.KindNotFound: driver.ErrUnusable, wire.KindMethod: driver.ErrUnusable,
		wire.KindDamaged: driver.ErrDamaged, wire.KindUnsupported: driver.ErrUnsupported,
	} {
		for call, do := range calls {
			if err := do(t.Context(), answering(t, ours(wire.NewRefusal(kind, "because")))); !errors.Is(err, want) || !strings.Contains(err.Error(), "because") {
				t.Errorf("%s of a %s: %v", kind, call, err)
			}
		}
	}
	for outcome, want := range map[wire.Outcome]error{
		wire.Invalid: driver.ErrInvalid, wire.Denied: driver.ErrUnusable, wire.Damaged: driver.ErrDamaged,
		wire.Unusable: driver.ErrUnusable, wire.Unsupported: driver.ErrUnsupported,
	} {
		for _, call := range []string{"renew", "release"} {
			r := ours(map[string]any{"results": []wire.RenewResult{{HoldID: ref.HoldID, Outcome: outcome, Detail: "because"}}})
			if err := calls[call](t.Context(), answering(t, r)); !errors.Is(err, want) {
				t.Errorf("%s: %s: %v", call, outcome, err)
			}
		}
	}
	lost := ours(map[string]any{"results": []wire.RenewResult{{HoldID: ref.HoldID, Outcome: wire.Lost}}})
	if err := calls["renew"](t.Context(), answering(t, lost)); !errors.Is(err, driver.ErrLost) {
		t.Errorf("lost: %v", err)
	}
}

// The errors for a caller that the server does not know say what to do, but not the
// token.
func TestAdvice(t *testing.T) {
	r := ours(wire.NewRefusal(wire.KindAnonymous, "no token"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { r.write(w) }))
	t.Cleanup(server.Close)
	for token, says := range map[string]string{"": "token_file", "s3cret": "ask for a new one", "s3cret\n": "ask for a new one"} {
		err := dial(t, server.URL+"/s3cret", &Options{Token: token}).Init(t.Context())
		if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

// An unknown caller is reported as unknown even after too many requests of its kind. A
// known caller that sends too many requests is not.
func TestTooManyUnknown(t *testing.T) {
	for _, unknown := range []bool{true, false} {
		r := ours(wire.NewRefusal(wire.KindBusy, "no caller has this token; and too many such requests came"))
		if unknown {
			r.headers = http.Header{"WWW-Authenticate": {"Bearer"}}
		}
		for call, do := range calls {
			err := do(t.Context(), answering(t, r))
			if errors.Is(err, driver.ErrUnusable) != unknown || strings.Contains(err.Error(), "does not know who asks") != unknown {
				t.Errorf("%s, unknown %v: %v", call, unknown, err)
			}
		}
	}
}

// Go programs can distinguish a missing right from other reasons.
func TestDenied(t *testing.T) {
	for kind, denied := range map[wire.Kind]bool{wire.KindDenied: true, wire.KindUnusable: false, wire.KindAnonymous: false} {
		err := calls["list"](t.Context(), answering(t, ours(wire.NewRefusal(kind, "no right"))))
		if !errors.Is(err, driver.ErrUnusable) || errors.Is(err, ErrDenied) != denied {
			t.Errorf("%s: %v", kind, err)
		}
	}
	item := wire.ReleaseResult{Outcome: wire.Denied, Detail: "no right"}.Driver().Err
	if !errors.Is(item, driver.ErrUnusable) || !errors.Is(item, ErrDenied) {
		t.Errorf("an item: %v", item)
	}
}

// Answers of a server in front of another store are not accepted.
func TestAnotherStore(t *testing.T) {
	id := testStoreID
	s := &testServer{t: t}
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		var answer reply
		switch r.URL.Path {
		case wire.AcquirePath:
			answer = ours(wire.GrantOf(request, grant))
		case wire.RenewPath:
			answer = ours(wire.RenewAnswer{Results: []wire.RenewResult{{HoldID: ref.HoldID, Outcome: wire.Lost}}})
		case wire.ReleasePath:
			answer = ours(wire.ReleaseAnswer{Results: []wire.ReleaseResult{{HoldID: ref.HoldID, Outcome: wire.Released}}})
		case wire.ForceReleasePath:
			answer = ours(wire.ReleaseResult{HoldID: ref.HoldID, Outcome: wire.Released})
		case wire.HoldsPath, wire.WaitersPath:
			answer = reply{status: 200, media: wire.NDJSON, id: id, body: `{"end":{"count":0}}`}
		case wire.WatchPath:
			answer = reply{status: 200, media: wire.Events, id: id, body: "event: ready\n\n"}
		default:
			answer = ours(wire.TraitsOf(driver.Traits{Name: "n", Reach: driver.Network, Fencing: driver.FencingStrict}))
		}
		answer.id = id
		answer.write(w)
		return false
	}
	at := s.listen().URL
	for call, do := range calls {
		id = testStoreID
		store := dial(t, at, nil)
		if err := store.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		id = "another"
		err := do(t.Context(), store)
		if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "--store") || !strings.Contains(err.Error(), `"another"`) {
			t.Errorf("%s: %v", call, err)
		}
		id = testStoreID
		if _, err := store.Acquire(t.Context(), request); err != nil {
			t.Errorf("%s: the first store again: %v", call, err)
		}
	}
}

// Promises of a newer server in words that this version does not know do not count.
func TestNewerTraits(t *testing.T) {
	s := answering(t, ours(wire.TraitsOf(driver.Traits{Name: "n", Reach: "galaxy", Fencing: "stricter", Failover: "never", Queue: true})))
	before := s.Traits()
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := driver.Traits{Name: "http", Reach: driver.Host, Fencing: driver.FencingNone, Failover: driver.FailoverMayLose, Queue: true}
	if got := s.Traits(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if before.Queue || before.Shared || before.Notifies || before.Durable || before.Reach != driver.Process || before.Fencing != driver.FencingNone {
		t.Errorf("before Init: %+v", before)
	}
}
