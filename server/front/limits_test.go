package front

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestBuckets(t *testing.T) {
	now := time.Now()
	b := newBuckets(10, 3)
	for i := range 3 {
		if _, ok := b.take("a", now); !ok {
			t.Errorf("take %d is refused", i)
		}
	}
	if wait, ok := b.take("a", now); ok || wait != 100*time.Millisecond {
		t.Errorf("the fourth: %v after %v", ok, wait)
	}
	if _, ok := b.take("b", now); !ok {
		t.Error("another key is refused")
	}
	if wait, ok := b.take("a", now.Add(50*time.Millisecond)); ok || wait != 50*time.Millisecond {
		t.Errorf("too early: %v after %v", ok, wait)
	}
	if _, ok := b.take("a", now.Add(-time.Hour)); ok {
		t.Error("an earlier time fills the bucket")
	}
	now = now.Add(time.Hour)
	for range 3 {
		if _, ok := b.take("a", now); !ok {
			t.Error("after an hour the bucket is not full")
		}
	}
	if _, ok := b.take("a", now); ok {
		t.Error("after an hour the bucket holds more than its size")
	}
}

func TestBucketsAreBounded(t *testing.T) {
	now := time.Now()
	b := newBuckets(1, 1)
	for i := range maxBuckets {
		if _, ok := b.take(strconv.Itoa(i), now); !ok {
			t.Fatal("refused")
		}
	}
	if _, ok := b.take("one", now); !ok {
		t.Error("the first of all others is refused")
	}
	if _, ok := b.take("two", now); ok || len(b.all) != maxBuckets+1 {
		t.Errorf("the others do not share a bucket, there are %d", len(b.all))
	}
	if _, ok := b.take("0", now); ok {
		t.Error("one that is known gets more")
	}
	if _, ok := b.take("two", now.Add(time.Second)); !ok || len(b.all) != 1 {
		t.Errorf("full buckets are kept: %d", len(b.all))
	}
}

// Whatever a caller sends, its renewals and others' requests are served.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth, tokens := newAuth(t, "a", "b")
		f := newFront(t, whoami, &Options{Identify: auth.Identify, Hosts: []string{"example.com"}, Limits: Limits{Rate: 5}})
		get := func(name, path string) answer {
			r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
			r.Header.Set("Authorization", "Bearer "+tokens[name])
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			return readAnswer(t, w.Result())
		}
		for range 5 {
			if got := get("a", "/v1/holds"); got.status != 200 {
				t.Fatalf("%d: %s", got.status, got.body)
			}
		}
		got := get("a", "/v1/holds")
		if got.kind != wire.KindBusy || got.header.Get("Retry-After") != "1" {
			t.Errorf("the sixth: %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
		}
		for _, ask := range [][2]string{{"a", wire.RenewPath}, {"a", wire.ReleasePath}, {"b", "/v1/holds"}, {"a", "/healthz"}} {
			if got := get(ask[0], ask[1]); got.status != 200 {
				t.Errorf("%v: %d", ask, got.status)
			}
		}
		time.Sleep(200 * time.Millisecond)
		if got := get("a", "/v1/holds"); got.status != 200 {
			t.Errorf("200 ms later: %d", got.status)
		}
	})
}

// A caller with as many waits as it may have can still renew, and others can wait.
func TestOpen(t *testing.T) {
	auth, tokens := newAuth(t, "a", "b")
	arrived, leave := make(chan string, 10), make(chan struct{})
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.AcquirePath {
			arrived <- AddressOf(r)
			<-leave
		}
		whoami.ServeHTTP(w, r)
	})
	addr := start(t, next, &Options{Identify: auth.Identify, Limits: Limits{Open: 2}})
	c := client(t, nil)
	post := func(name, path string) answer {
		return send(t, c, "POST", "http://"+addr+path, "{}", "Content-Type: application/json", "Authorization: Bearer "+tokens[name])
	}
	done := make(chan answer, 3)
	for _, name := range []string{"a", "a", "b"} {
		go func() { done <- post(name, wire.AcquirePath) }()
		<-arrived
	}
	if got := post("a", wire.AcquirePath); got.kind != wire.KindBusy || got.header.Get("Retry-After") != "1" {
		t.Errorf("the third: %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	for _, path := range []string{wire.RenewPath, wire.ReleasePath} {
		if got := post("a", path); got.status != 200 {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	close(leave)
	for range 3 {
		if got := <-done; got.status != 200 {
			t.Errorf("a wait: %d %s", got.status, got.body)
		}
	}
	if got := post("a", wire.AcquirePath); got.status != 200 {
		t.Errorf("after they left: %d %s", got.status, got.body)
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
