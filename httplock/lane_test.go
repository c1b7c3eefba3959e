package httplock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
)

// held acquires a hold in the store.
func held(t *testing.T, s driver.Store) driver.RenewRequest {
	t.Helper()
	return many(t, s, 1, func(int) string { return driver.NewHoldID().String() })[0]
}

// renew renews the hold within the given time.
func renew(ctx context.Context, s *Store, q driver.RenewRequest, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	rs, err := s.Renew(ctx, []driver.RenewRequest{q})
	if err != nil {
		return err
	}
	return rs[0].Err
}

// If their connection goes silent, 100 holds are all renewed over another one.
func TestSilentConnectionUnder100Holds(t *testing.T) {
	t.Parallel()
	store := memlock.New(nil)
	relay, at := newRelay(t, (&testServer{t: t, store: store}).listen().URL)
	c := holdfast.New(dial(t, at, nil), &holdfast.Options{TTL: 10 * time.Second})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	holds := make([]*holdfast.Hold, 100)
	for i := range holds {
		var err error
		if holds[i], err = c.Lock(t.Context(), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	renewed := func(since time.Time) (n int) {
		for s, err := range store.List(t.Context(), driver.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if s.Renewed.After(since) {
				n++
			}
		}
		return n
	}
	await := func(since time.Time) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); renewed(since) < len(holds); {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d holds were renewed", renewed(since), len(holds))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	await(time.Time{}) // over a persistent connection
	relay.silence()
	await(time.Now())
	for i, h := range holds {
		if err := context.Cause(h.Context()); err != nil {
			t.Errorf("hold %d: %v", i, err)
		}
	}
}

// However many connections are silent or closed, one request is enough to find a new one.
func TestOldConnections(t *testing.T) {
	for name, end := range map[string]func(*relay){
		"silent": (*relay).silence,
		"cut":    (*relay).cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var together sync.WaitGroup
			together.Add(8)
			var wait atomic.Bool
			server := &testServer{t: t, store: memlock.New(nil), before: func(_ http.ResponseWriter, r *http.Request) bool {
				if wait.Load() {
					together.Done()
					together.Wait()
				}
				return true
			}}
			relay, at := newRelay(t, server.listen().URL)
			s := dial(t, at, nil)
			q := held(t, s)
			wait.Store(true)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if err := renew(t.Context(), s, q, time.Minute); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			wait.Store(false)
			end(relay)
			began := time.Now()
			if err := renew(t.Context(), s, q, 6*time.Second); err != nil {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			defer cancel()
			rs, err := s.Release(ctx, []driver.ReleaseRequest{{HoldRef: q.HoldRef}})
			if err != nil || rs[0].Err != nil || !rs[0].Found {
				t.Errorf("release: %+v, %v", rs, err)
			}
		})
	}
}

// A new connection gets all the time left: the server may just be slow.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	server := &testServer{t: t, store: memlock.New(nil)}
	at := server.listen().URL
	q := held(t, dial(t, at, nil))
	asked := server.served.Load()
	server.before = func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return false
	}
	began := time.Now()
	err := renew(t.Context(), dial(t, at, nil), q, 400*time.Millisecond)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < 400*time.Millisecond {
		t.Errorf("%v after %v", err, took)
	}
	if n := server.served.Load() - asked; n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A request that breaks off on a new connection is not repeated. On a reused one it is
// repeated once.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	var breaks atomic.Bool
	server := &testServer{t: t, store: memlock.New(nil), before: func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1))
		if breaks.Load() {
			panic(http.ErrAbortHandler)
		}
		return false
	}}
	at := server.listen().URL
	for name, do := range calls {
		if name == "forced release of whichever hold" || name == "watch" {
			continue // it takes several requests
		}
		s := dial(t, at, nil)
		breaks.Store(true)
		before := server.served.Load()
		if err := do(t.Context(), s); isDefinite(err) {
			t.Errorf("%s: %v", name, err)
		}
		fresh := server.served.Load() - before
		breaks.Store(false)
		if err := do(t.Context(), s); isDefinite(err) { // leaves its connection for the next call
			t.Errorf("%s: %v", name, err)
		}
		breaks.Store(true)
		before = server.served.Load()
		if err := do(t.Context(), s); isDefinite(err) {
			t.Errorf("%s: %v", name, err)
		}
		again, most := server.served.Load()-before, int64(3) // net/http itself repeats a GET
		if name == "sweep" || name == "acquire" {
			// Each try has a new connection; the Client repeats it, and then cleans up.
			most = 1
		}
		if fresh != 1 || again > most || again < min(most, 2) {
			t.Errorf("%s: %d requests over a new connection, %d over an old one", name, fresh, again)
		}
	}
}

// Nothing is sent once ctx has ended, and a call returns soon after that.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 100)
	server := &testServer{t: t, before: func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
		return false
	}}
	s := dial(t, server.listen().URL, nil)
	do := maps.Clone(calls)
	do["no renewals"] = func(ctx context.Context, s *Store) error { _, err := s.Renew(ctx, nil); return err }
	do["no releases"] = func(ctx context.Context, s *Store) error { _, err := s.Release(ctx, nil); return err }
	for name, call := range do {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := call(ctx, s); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a dead ctx: %v", name, err)
		}
	}
	if n := server.served.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	for name, call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		if err := call(ctx, s); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The server is told how long the caller waits.
func TestBudget(t *testing.T) {
	t.Parallel()
	var header atomic.Value
	server := &testServer{t: t, store: memlock.New(nil), before: func(_ http.ResponseWriter, r *http.Request) bool {
		header.Store(r.Header.Get(wire.TimeoutHeader))
		return true
	}}
	s := dial(t, server.listen().URL, nil)
	if err := s.Init(t.Context()); err != nil || header.Load() != "" {
		t.Errorf("without a deadline: %q, %v", header.Load(), err)
	}
	q := held(t, s)
	if err := renew(t.Context(), s, q, time.Minute); err != nil {
		t.Fatal(err)
	}
	far, cancel := context.WithTimeout(t.Context(), 100*24*time.Hour)
	defer cancel()
	if err := s.Init(far); err != nil || header.Load() != "4294967295" {
		t.Errorf("with a deadline that is far away: %q, %v", header.Load(), err)
	}
	if err := renew(t.Context(), s, q, time.Minute); err != nil {
		t.Fatal(err)
	}
	text, _ := header.Load().(string)
	if n, err := strconv.Atoi(text); err != nil || n <= 30_000 || n > 60_000 {
		t.Errorf("of a minute, %q is left: %v", text, err)
	}
}
