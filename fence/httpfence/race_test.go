package httpfence_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/fence/httpfence"
)

// Holders that all believe that they have the lock read and write through the fence at
// once. No write may get lost: each accepted write added one to the value before. The
// service is slow, and ignores its context.
func TestNoWriteIsLost(t *testing.T) {
	for range 20 {
		synctest.Test(t, noWriteIsLost)
	}
}

func noWriteIsLost(t *testing.T) {
	const holders = 40
	pause := func(most time.Duration) { time.Sleep(rand.N(most)) }
	var a account
	var last, writes atomic.Uint64
	h := handler(t, func(w http.ResponseWriter, r *http.Request) {
		token, _ := httpfence.TokenOf(r.Context())
		pause(time.Millisecond)
		if r.Method == http.MethodGet {
			fmt.Fprint(w, a.get())
			return
		}
		text, _ := io.ReadAll(r.Body)
		value, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return // overtaken before this read
		}
		pause(time.Millisecond)
		if before := last.Swap(token.Value); before > token.Value {
			t.Errorf("a write under token %d comes after one under %d", token.Value, before)
		}
		if was := a.get(); value != was+1 {
			t.Errorf("token %d writes %d where %d was", token.Value, value, was)
		}
		a.set(value)
		writes.Add(1)
	}, httpfence.Options{})
	ask := func(method string, token int, body string) string {
		r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
		r.Header.Set(httpfence.Header, fmt.Sprint(token))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return ""
		}
		return w.Body.String()
	}
	var all sync.WaitGroup
	for n := range holders {
		all.Go(func() {
			pause(time.Duration(n+1) * time.Millisecond)
			for range 5 {
				text := ask(http.MethodGet, n+1, "")
				if text == "" {
					return // the token is stale
				}
				value, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					t.Error(err)
				}
				pause(time.Millisecond)
				ask(http.MethodPost, n+1, fmt.Sprint(value+1))
			}
		})
	}
	all.Wait()
	if value := a.get(); value < 5 || uint64(value) != writes.Load() {
		t.Errorf("%d writes, and the value is %d", writes.Load(), value)
	}
}

// BenchmarkHandler measures what the fence adds to a request.
func BenchmarkHandler(b *testing.B) {
	h := handler(b, func(http.ResponseWriter, *http.Request) {}, httpfence.Options{})
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
	r.Header.Set(httpfence.Header, "1792345678901234; resource=the%20place")
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
