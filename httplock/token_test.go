package httplock

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
)

// age moves the times of the last reading into the past.
func (t *token) age(read, changed time.Duration) {
	last := *t.last.Load()
	last.at, last.changed = last.at.Add(-read), last.changed.Add(-changed)
	t.last.Store(&last)
}

func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(" first \n")
	token, err := newToken("unused", file)
	if err != nil {
		t.Fatal(err)
	}
	again := func() string {
		token.age(rereadAfter, 0)
		return token.get()
	}
	if got := token.get(); got != "first" {
		t.Errorf("got %q", got)
	}
	write("second")
	if got := token.get(); got != "first" {
		t.Errorf("the file is read for each request: %q", got)
	}
	if got := again(); got != "second" {
		t.Errorf("after the change: %q", got)
	}
	for _, bad := range []string{"", "two words", "a\nb", strings.Repeat("x", maxToken+1), "\x7f", "ü"} {
		write(bad)
		if got := again(); got != "second" {
			t.Errorf("in the middle of a change: %q", got)
		}
		if _, err := newToken("", file); err == nil {
			t.Errorf("token %q was accepted", bad)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := again(); got != "second" {
		t.Errorf("without the file: %q", got)
	}
}

// knowing is a server that knows one token at a time.
type knowing struct {
	*testServer
	token atomic.Pointer[string]
}

func (k *knowing) knows(token string) { k.token.Store(&token) }

// rotated returns such a server, a store on it with a token file, and a function that
// writes the file.
func rotated(t *testing.T) (*knowing, *Store, func(token string)) {
	t.Helper()
	k := &knowing{testServer: &testServer{t: t, store: memlock.New(nil)}}
	k.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+*k.token.Load() {
			return true
		}
		ours(wire.NewRefusal(wire.KindAnonymous, "nobody")).write(w)
		return false
	}
	k.knows("old")
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, long, long); err != nil {
		t.Fatal(err)
	}
	return k, dial(t, k.listen().URL+"?token_file="+url.QueryEscape(file), nil), write
}

// While a token is replaced, the server and this store may know different tokens for a
// while. An unknown token means nothing until both have had time to read their files.
func TestTokenIsReplaced(t *testing.T) {
	t.Parallel()
	k, s, write := rotated(t)
	unknown := func(when string) {
		t.Helper()
		if err := s.Init(t.Context()); err == nil || isDefinite(err) {
			t.Errorf("%s: %v", when, err)
		}
	}
	known := func(when string) {
		t.Helper()
		if err := s.Init(t.Context()); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	unusable := func(when string) {
		t.Helper()
		if err := s.Init(t.Context()); !errors.Is(err, driver.ErrUnusable) {
			t.Errorf("%s: %v", when, err)
		}
	}
	known("before")
	k.knows("another")
	unusable("the token was taken away")
	k.knows("new")
	write("new")
	unknown("the server has read its file, and the store has not")
	known("the store has read its file because it was refused")

	write("newer")
	s.token.age(rereadAfter, 0)
	unknown("the store has read its file, and the server has not")
	k.knows("newer")
	known("the server has read its file")

	k.knows("another")
	s.token.age(0, propagation)
	unusable("a while after the change")

	write("recent")
	again := dial(t, "http://127.0.0.1:1?token_file="+url.QueryEscape(s.token.file), nil)
	if !again.token.propagating() {
		t.Error("a program that starts just after the change does not wait for the server")
	}
}

// Nothing is lost and nothing fails while a token is replaced, whether the server or the
// store reads it first.
func TestClientWhileTokenIsReplaced(t *testing.T) {
	t.Parallel()
	for _, serverFirst := range []bool{false, true} {
		k, s, write := rotated(t)
		c := holdfast.New(s, nil)
		nothing := func(context.Context) error { return nil }
		if err := c.Do(t.Context(), "before", nil, nothing); err != nil {
			t.Fatal(err)
		}
		write("new")
		if serverFirst { // the store has not looked at its file yet
			k.knows("new")
		} else {
			s.token.age(rereadAfter, 0)
		}
		done, before := make(chan error, 1), k.served.Load()
		go func() { done <- c.Do(t.Context(), "r", nil, nothing) }()
		for k.served.Load() == before {
			time.Sleep(time.Millisecond)
		}
		k.knows("new")
		if err := <-done; err != nil {
			t.Errorf("server first %v: %v", serverFirst, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
