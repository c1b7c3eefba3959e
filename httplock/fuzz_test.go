package httplock

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// transport gives all requests the same answer.
type transport struct {
	status int
	header http.Header
	body   []byte
}

func (tr *transport) answer() *http.Response {
	return &http.Response{StatusCode: tr.status, Header: tr.header, Body: io.NopCloser(bytes.NewReader(tr.body))}
}

// No answer causes a panic, and only an answer of the server becomes a named error or a
// success.
func FuzzAnswer(f *testing.F) {
	held := wire.HeldRefusal(&driver.HeldError{Resource: "r", Position: driver.NoPlace, RetryAfter: time.Second, Holders: []driver.Status{{Resource: "r"}}})
	held.HoldID = request.HoldID
	for _, v := range []any{
		wire.GrantOf(request, grant), wire.NewRefusal(wire.KindDenied, "why"), held,
		wire.RenewAnswer{Results: []wire.RenewResult{{Outcome: wire.Renewed}}},
	} {
		r := ours(v)
		f.Add(r.status, r.media, r.id, r.body)
	}
	f.Add(409, "text/html", "", "<html>")
	f.Add(200, wire.JSON, testStoreID, "null")
	f.Fuzz(func(t *testing.T, status int, media, id, body string) {
		s, err := New("http://127.0.0.1", nil)
		if err != nil {
			t.Fatal(err)
		}
		tr := &transport{status, http.Header{"Content-Type": {media}, wire.StoreHeader: {id}}, []byte(body)}
		for _, v := range []any{
			&wire.Grant{}, &struct{ Results []wire.RenewResult }{}, &struct{ Results []wire.ReleaseResult }{}, &wire.Traits{}, &wire.SweepAnswer{},
		} {
			err := s.understand(tr.answer(), message{of: ref}, v) //nolint:bodyclose // the body is in memory
			if !isDefinite(err) {
				continue
			}
			want := wire.JSON
			if err != nil {
				want = wire.ProblemJSON
			}
			if id == "" || (err == nil) != (status == http.StatusOK) || !strings.Contains(strings.ToLower(media), want) {
				t.Fatalf("%d %q of store %q: %v for %T", status, media, id, err, v)
			}
			var held *driver.HeldError
			if errors.As(err, &held) && (held.Resource == "" || held.Position < driver.NoPlace || held.Waiters < 0 || !sound(held.RetryAfter)) {
				t.Fatalf("%+v", held)
			}
		}
	})
}

// A list yields only sound entries, and nothing if it is incomplete.
func FuzzList(f *testing.F) {
	f.Add([]byte(`{"resource":"r","mode":"shared","ttlMs":5}` + "\n" + `{"end":{"count":1}}` + "\n"))
	f.Add([]byte(`{"end":{"count":0}}`))
	f.Add([]byte(`{"error":{"type":"urn:holdfast:unusable","status":500}}`))
	f.Add([]byte("\n\r\n{}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := New("http://127.0.0.1", nil)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := readList(s, bytes.NewReader(body), func(h wire.Hold) (driver.Status, bool) { s := h.Driver(); return s, soundHold(s) })
		if err != nil && entries != nil {
			t.Fatalf("%v with %d entries", err, len(entries))
		}
		for _, h := range entries {
			if h.Resource == "" || !sound(h.Left) {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// Events are complete, and end with the stream.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: ready\ndata:\n\n: c\n\nevent:signal\r\n\r\n"))
	f.Add([]byte("event\n\nevent: \n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		lines := 0
		from := newLines(bytes.NewReader(body), maxEventLine)
		for n := 0; ; n++ {
			name, err := nextEvent(from, func() { lines++ })
			if err != nil {
				break
			}
			if n > len(body) || strings.ContainsAny(name, "\n") || len(name) > maxEventLine {
				t.Fatalf("event %d: %q", n, name)
			}
		}
		if lines > len(body) {
			t.Fatalf("%d lines of %d bytes", lines, len(body))
		}
	})
}

// No URL makes parse panic, and plain HTTP goes only to this machine.
func FuzzURL(f *testing.F) {
	for _, text := range []string{"https://h:1/b?ca=x", "http://127.0.0.1", "http://[::1]/", "unix:///s", "http://localhost"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := driver.ParseURL(text)
		if err != nil {
			return
		}
		parsed, err := parse(u)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		at := parsed.at(wire.TraitsPath, nil)
		if at.User != nil || at.Scheme == "http" && !isLoopback(at.Hostname()) || !strings.HasSuffix(at.Path, wire.TraitsPath) {
			t.Fatalf("%s leads to %s", text, at)
		}
	})
}
