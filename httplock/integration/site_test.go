package httplock_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/front"
)

// site is a server of a store, assembled as in `holdfast serve`.
type site struct {
	*server.Server
	url   string
	store driver.Store
}

// operator lets every caller do everything, as only a server's Unix socket does.
func operator(*http.Request) (access.Caller, error) { return access.Operator(), nil }

// everybody lets every caller lock and look, without a name, like a server without
// --auth.
func everybody(*http.Request) (access.Caller, error) { return access.Everybody(), nil }

// newSite serves the store, which it closes with the test, on a port of the loopback
// interface. Its callers may do everything unless identify identifies them.
func newSite(t testing.TB, store driver.Store, identify access.Identify) *site {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := listenAt(t, l, store, identify)
	s.url = "http://" + l.Addr().String()
	return s
}

// listenAt serves the store at the listener.
func listenAt(t testing.TB, l net.Listener, store driver.Store, identify access.Identify) *site {
	t.Helper()
	if identify == nil {
		identify = operator
	}
	much := budget.Rate{PerSecond: 1_000_000, Most: 1_000_000}
	b := budget.New(&budget.Options{Rates: map[budget.Flow]budget.Rate{budget.Requests: much, budget.Renewals: much}})
	s, err := server.New(store, &server.Options{Identify: front.CallerOf, Budget: b})
	if err != nil {
		t.Fatal(err)
	}
	f, err := front.Handler(s, &front.Options{Identify: identify, Hosts: []string{"127.0.0.1"}, Budget: b})
	if err != nil {
		t.Fatal(err)
	}
	h := front.Server(f, nil)
	var served sync.WaitGroup
	served.Go(func() { _ = h.Serve(l) })
	t.Cleanup(func() {
		_ = h.Close()
		served.Wait()
		for what, err := range map[string]error{"server": s.Close(), "store": store.Close()} {
			if err != nil {
				t.Errorf("closing the %s: %v", what, err)
			}
		}
	})
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &site{Server: s, store: store}
}

// dialer opens stores on the server at the URL. The caller closes them.
func dialer(url string, o *httplock.Options) func(t *testing.T) driver.Store {
	return func(t *testing.T) driver.Store {
		t.Helper()
		s, err := httplock.New(url, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// dial opens a store on the server at the URL that is ready, and closed with the test.
func dial(t testing.TB, url string) *httplock.Store {
	t.Helper()
	s, err := httplock.New(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := s.Init(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	return s
}
