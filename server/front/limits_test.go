package front

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
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
			Identify: auth.Identify, Hosts: []string{"example.com"}, Proxies: prefixes("192.0.2.0/24"),
			Refused: func(*http.Request, error) { told++ },
		})
		get := func(from, token string) answer {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.RemoteAddr = from
			r.Header.Set("Authorization", "Bearer "+token)
			// What a proxy says opens no other bucket, even if it is believed.
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", told))
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
			if got := get("192.0.2.1:99", "x"); got.kind != wire.KindBusy || got.header.Get("Retry-After") != "6" {
				t.Errorf("%d, Retry-After %q", got.status, got.header.Get("Retry-After"))
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
