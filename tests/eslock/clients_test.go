package eslock_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	elasticsearch8 "github.com/elastic/go-elasticsearch/v8"
	elasticsearch9 "github.com/elastic/go-elasticsearch/v9"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
)

// The official clients do as they are, also where they put a path before all
// others.
func TestOfficialClients(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		openSearch := n.isOpenSearch(t)
		for name, c := range map[string]struct {
			of   bool // OpenSearch
			make func(t *testing.T, address string, via http.RoundTripper) (eslock.Performer, error)
		}{
			"go-elasticsearch v8": {false, func(_ *testing.T, address string, via http.RoundTripper) (eslock.Performer, error) {
				return elasticsearch8.NewClient(elasticsearch8.Config{Addresses: []string{address}, Transport: via})
			}},
			"go-elasticsearch v8, typed": {false, func(_ *testing.T, address string, via http.RoundTripper) (eslock.Performer, error) {
				return elasticsearch8.NewTypedClient(elasticsearch8.Config{Addresses: []string{address}, Transport: via})
			}},
			"go-elasticsearch v9": {false, func(_ *testing.T, address string, via http.RoundTripper) (eslock.Performer, error) {
				return elasticsearch9.New(elasticsearch9.WithAddresses(address), elasticsearch9.WithTransportOptions(elastictransport.WithTransport(via)))
			}},
			"opensearch-go v4": {true, func(_ *testing.T, address string, via http.RoundTripper) (eslock.Performer, error) {
				return opensearch.NewClient(opensearch.Config{Addresses: []string{address}, Transport: via})
			}},
			"opensearchapi v4": {true, func(_ *testing.T, address string, via http.RoundTripper) (eslock.Performer, error) {
				client, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{Addresses: []string{address}, Transport: via}})
				if err != nil {
					return nil, err
				}
				return client.Client, nil
			}},
		} {
			if c.of != openSearch {
				continue
			}
			t.Run(name, func(t *testing.T) {
				n := n.in(t)
				for _, address := range []string{n.base.String(), n.behindPrefix(t) + "/some/path"} {
					client, err := c.make(t, address, n.client.Transport)
					if err != nil {
						t.Fatal(err)
					}
					if c, ok := client.(io.Closer); ok {
						t.Cleanup(func() { _ = c.Close() })
					}
					useAll(t, newStore(t, client, &eslock.Options{Index: n.newIndex(t)}))
				}
			})
		}
	})
}

// useAll sends every kind of request, with names that are hard on a URL.
func useAll(t *testing.T, s *eslock.Store) {
	t.Helper()
	var refs []driver.HoldRef
	for _, name := range []string{"plain", "a/b", "..", "%2F", "a b?c#d", "_source", "ü\\\"", strings.Repeat("/", 1024)} {
		refs = append(refs, mustAcquire(t, s, request(name, "a")))
		_ = refused(t, s, request(name, "b"))
	}
	var renewals []driver.RenewRequest
	for _, ref := range refs {
		renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: 2 * time.Hour})
	}
	rs, err := s.Renew(t.Context(), renewals)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rs {
		if r.Err != nil || r.Left != 2*time.Hour {
			t.Errorf("renewal of %q: %+v", refs[i].Resource, r)
		}
	}
	found := map[string]bool{}
	for status, err := range s.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		found[status.Resource] = true
	}
	for _, ref := range refs {
		if !found[ref.Resource] {
			t.Errorf("%q is not listed", ref.Resource)
		}
		if !mustRelease(t, s, ref, 0) {
			t.Errorf("%q is not found", ref.Resource)
		}
	}
	if _, err := s.Sweep(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}

// A client of Elasticsearch refuses the answers of OpenSearch, after the server
// did what was asked: that is never taken for an outcome.
func TestProductCheck(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		if !n.isOpenSearch(t) {
			t.Skip("it passes the check")
		}
		client, err := elasticsearch8.NewClient(elasticsearch8.Config{Addresses: []string{n.base.String()}, Transport: n.client.Transport})
		if err != nil {
			t.Fatal(err)
		}
		index := n.newIndex(t)
		refusing := eslock.New(client, &eslock.Options{Index: index})
		if err := refusing.Init(t.Context()); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "OpenSearch's client") {
			t.Errorf("Init: %v", err)
		}
		s := newStore(t, n, &eslock.Options{Index: index})
		q := request("r", "a")
		if _, err := refusing.Acquire(t.Context(), q); err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrUnusable) {
			t.Errorf("acquire: %v", err)
		}
		ref := mustAcquire(t, s, q) // found, and not held by another
		rs, err := refusing.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
		if err != nil || rs[0].Err == nil {
			t.Errorf("release: %v %v", rs, err)
		}
		if mustRelease(t, s, ref, 0) {
			t.Error("it was released before")
		}
	})
}

func (n node) isOpenSearch(t testing.TB) bool {
	t.Helper()
	version := n.must(t, http.MethodGet, "/", nil)["version"].(object)
	return version["distribution"] == "opensearch"
}

// behindPrefix serves the node under /some/path.
func (n node) behindPrefix(t *testing.T) string {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: n.base.Scheme, Host: n.base.Host})
	proxy.Transport = n.client.Transport
	server := httptest.NewServer(http.StripPrefix("/some/path", proxy))
	t.Cleanup(server.Close)
	return server.URL
}
