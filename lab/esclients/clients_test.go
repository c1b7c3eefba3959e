//go:build officialclients

package esclients_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/engines"
)

// The locks work with each client, also behind a proxy that serves the node under a path.
func TestLocks(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		for name, o := range officials {
			if o.refuses(e) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				via := transport(t)
				for where, address := range map[string]string{"directly": e.URL, "under a path": underPath(t, e.URL, via) + "/some/path"} {
					t.Run(where, func(t *testing.T) {
						useAll(t, holdfast.New(newStore(t, o.at(t, address, via), engines.SearchIndex(t, e)), nil))
					})
				}
			})
		}
	})
}

// underPath serves a node under /some/path.
func underPath(t *testing.T, node string, via http.RoundTripper) string {
	t.Helper()
	to, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = via
	server := httptest.NewServer(http.StripPrefix("/some/path", proxy))
	t.Cleanup(server.Close)
	return server.URL
}

// useAll sends every kind of request, with names that need escaping in a URL.
func useAll(t *testing.T, c *holdfast.Client) {
	t.Helper()
	ctx := t.Context()
	names := []string{"plain", "a/b", "..", ".", "%2F", "a b?c#d", "_source", "ü\\\"", "+", strings.Repeat("/", 512), strings.Repeat("/", 1024)}
	mine := &holdfast.LockOptions{LockID: "mine", TTL: time.Hour}
	holds := make(map[string]*holdfast.Hold)
	for _, name := range names {
		h, err := c.Lock(ctx, name, mine)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		holds[name] = h
		if _, err := c.TryLock(ctx, name, nil); !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("%q is held, and another is told %v", name, err)
		}
	}
	if err := holds["a/b"].Renew(ctx, 2*time.Hour); err != nil {
		t.Error(err)
	}
	renewed, err := c.Admin().RenewID(ctx, "mine", 3*time.Hour) // all holds of the lock ID
	if err != nil || len(renewed) != len(names) {
		t.Errorf("%d renewed, error %v", len(renewed), err)
	}
	found := 0
	for st, err := range c.Admin().Holds(ctx, holdfast.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if h := holds[st.Resource]; h == nil || st.Token != h.Token() || st.Left < 2*time.Hour {
			t.Errorf("listed %+v", st)
		}
		found++
	}
	if found != len(names) {
		t.Errorf("%d of %d are listed", found, len(names))
	}
	for name, h := range holds {
		if err := h.Unlock(ctx); err != nil {
			t.Errorf("unlock of %q: %v", name, err)
		}
	}
	for name := range holds {
		h, err := c.TryRLock(ctx, name, &holdfast.LockOptions{Limit: 2})
		if err != nil || h.Token() <= holds[name].Token() {
			t.Fatalf("%q once more: %v", name, err)
		}
	}
	if _, err := c.Admin().Sweep(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil { // releases all of them in one batch
		t.Error(err)
	}
}
