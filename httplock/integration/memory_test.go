package httplock_test

import (
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/internal/pipenet"
)

// inMemorySite serves the store over connections in memory.
func inMemorySite(t testing.TB, store driver.Store) (*site, *http.Transport) {
	t.Helper()
	p := pipenet.Listen()
	s := listenAt(t, p, store, nil)
	s.url = "http://127.0.0.1:1"
	transport := &http.Transport{DialContext: p.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return s, transport
}

// whole is a store with all optional features.
type whole interface {
	driver.Store
	driver.Watcher
	driver.Queue
	driver.Initializer
}

// lent is a store that somebody else closes.
type lent struct{ whole }

func lend(s driver.Store) lent { return lent{s.(whole)} }

func (lent) Close() error { return nil }

// openOver opens a store over the transport, and closes it with the test.
func openOver(t testing.TB, url string, over *http.Transport) *httplock.Store {
	t.Helper()
	s, err := httplock.New(url, &httplock.Options{Transport: over})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
