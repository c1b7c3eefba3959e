package httplock

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
)

// openBehindRelay is openHarness on a network that can fall silent, with a handle that goes
// round it.
func openBehindRelay(t *testing.T) *drivertest.Harness {
	server := (&testServer{t: t, store: memlock.New(nil)}).listen()
	relay, at := newRelay(t, server.URL)
	open := func(url string) func(t *testing.T) driver.Store {
		return func(t *testing.T) driver.Store {
			s, err := New(url, nil) // the suite closes it
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	return &drivertest.Harness{
		HidesPlaces: true,
		Store:       open(at)(t), Reopen: open(at), Beside: open(server.URL),
		Break: func(*testing.T) (restore func()) {
			relay.silence(true)
			return relay.restore
		},
	}
}

// openBehindBalancer is openHarness behind somebody who answers by himself while the
// server cannot be reached.
func openBehindBalancer(t *testing.T) *drivertest.Harness {
	var broken atomic.Bool
	rnd := newDice(1)
	server := &testServer{t: t, store: memlock.New(nil), before: func(w http.ResponseWriter, r *http.Request) bool {
		if !broken.Load() {
			return true
		}
		_, _ = io.Copy(io.Discard, r.Body)
		byItself[rnd.roll(len(byItself))].write(w)
		return false
	}}
	at := server.listen().URL
	reopen := func(t *testing.T) driver.Store {
		s, err := New(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return &drivertest.Harness{
		HidesPlaces: true,
		Store:       reopen(t), Reopen: reopen,
		Break: func(*testing.T) (restore func()) {
			broken.Store(true)
			return func() { broken.Store(false) }
		},
	}
}

func TestOutages(t *testing.T) {
	t.Run("silent network", func(t *testing.T) { t.Parallel(); drivertest.Outages(t, openBehindRelay) })
	t.Run("balancer", func(t *testing.T) { t.Parallel(); drivertest.Outages(t, openBehindBalancer) })
}

// byItself is what somebody on the way may answer.
var byItself = []reply{
	{status: 502, media: "text/html", body: "<html>bad gateway</html>"},
	{status: 504, media: "text/html", body: "<html>timeout</html>"},
	{status: 503, media: "text/plain", headers: http.Header{"Retry-After": {"1"}}},
	{status: 429, media: "text/plain", headers: http.Header{"Retry-After": {"1"}}},
	{status: 200, media: "text/html", body: "<html>log in</html>"},
	{status: 200, media: wire.JSON, body: `{}`},
	{status: 404, media: "text/plain", body: "404 page not found"},
	{status: 409, media: "text/html", body: "<html>conflict</html>"},
	{status: 302, media: "text/html", headers: http.Header{"Location": {"/login"}}},
}

// dice are for several goroutines.
type dice struct {
	mu  sync.Mutex
	rnd *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rnd: rand.New(rand.NewPCG(seed, 0))} }

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rnd.IntN(n)
}

// proxy passes requests on to a server, and disturbs some of them.
type proxy struct {
	server http.Handler
	dice   *dice
	spared atomic.Int32 // while it is not 0, nothing is disturbed
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.spared.Load() > 0 || p.dice.roll(100) >= 30 {
		p.server.ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	pass := func() *httptest.ResponseRecorder {
		inner := r.Clone(context.WithoutCancel(r.Context()))
		inner.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		p.server.ServeHTTP(rec, inner)
		return rec
	}
	switch p.dice.roll(6) {
	case 0: // the request is dropped
		panic(http.ErrAbortHandler)
	case 1: // the answer is
		pass()
		panic(http.ErrAbortHandler)
	case 2: // somebody else answers
		byItself[p.dice.roll(len(byItself))].write(w)
	case 3: // somebody else answers, and the request has passed
		pass()
		byItself[p.dice.roll(len(byItself))].write(w)
	case 4: // the request is sent twice
		pass()
		copyTo(w, pass(), 0)
	case 5: // the answer breaks off
		copyTo(w, pass(), 1)
	}
}

// copyTo answers as recorded, but leaves out so many bytes at the end.
func copyTo(w http.ResponseWriter, rec *httptest.ResponseRecorder, short int) {
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	text := rec.Body.Bytes()
	_, _ = w.Write(text[:max(0, len(text)-short)])
	if short > 0 {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// spared is a store that is not disturbed while it does what the suite does not repeat.
type spared struct {
	*Store
	proxy *proxy
}

func (s spared) spare() (end func()) {
	s.proxy.spared.Add(1)
	return func() { s.proxy.spared.Add(-1) }
}

func (s spared) Init(ctx context.Context) error {
	defer s.spare()()
	return s.Store.Init(ctx)
}

// Watch spares all as long as somebody watches: a stream that was cut gives a signal, which
// tests of who is not woken could not tell from another.
func (s spared) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	context.AfterFunc(ctx, s.spare())
	return s.Store.Watch(ctx, resource)
}

func (s spared) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	for _, q := range qs {
		if q.HoldID.IsZero() {
			defer s.spare()()
			break
		}
	}
	return s.Store.Renew(ctx, qs)
}

func (s spared) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	for _, q := range qs {
		if q.HoldID.IsZero() {
			defer s.spare()()
			break
		}
	}
	return s.Store.Release(ctx, qs)
}

// Behind a proxy that cuts, drops, repeats and answers by itself, a store whose requests
// are repeated as the Client does shows the same behaviour.
func TestConformanceBehindProxy(t *testing.T) {
	seed := uint64(0)
	var mu sync.Mutex
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		mu.Lock()
		seed++
		p := &proxy{dice: newDice(seed)}
		mu.Unlock()
		c := &clock{now: time.Date(2031, 5, 6, 7, 8, 9, 1000, time.UTC)}
		p.server = &testServer{t: t, store: memlock.New(&memlock.Options{Now: c.Now})}
		server := httptest.NewServer(p)
		t.Cleanup(server.Close)
		reopen := func(t *testing.T) driver.Store {
			s, err := New(server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			return drivertest.NewRepeater(spared{s, p})
		}
		return &drivertest.Harness{HidesPlaces: true, Store: reopen(t), Reopen: reopen, Advance: c.Advance, Now: c.Now, Repeats: true}
	})
}
