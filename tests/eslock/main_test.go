// Package eslock_test holds the tests of package eslock that need a server.
package eslock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/tests/engines"
)

func TestMain(m *testing.M) {
	// Most of the time they wait, for a network or a clock.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// onBoth runs a test on each kind of server.
func onBoth(t *testing.T, test func(t *testing.T, n node)) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		test(t, newNode(t, e))
	})
}

// node is a server as a client without a library sees it.
type node struct {
	engine engines.Engine
	base   *url.URL
	client *http.Client
}

func newNode(t testing.TB, e engines.Engine) node {
	t.Helper()
	base, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	return node{engine: e, base: base}.dialing(t, nil)
}

// in is the node of a subtest.
func (n node) in(t testing.TB) node { return newNode(t, n.engine) }

// dialing is the node with connections of its own. nil: as ever.
func (n node) dialing(t testing.TB, dial func(ctx context.Context, network, address string) (net.Conn, error)) node {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: dial}
	t.Cleanup(transport.CloseIdleConnections)
	n.client = &http.Client{Transport: transport}
	return n
}

// Perform implements eslock.Performer.
func (n node) Perform(req *http.Request) (*http.Response, error) {
	req.URL.Scheme, req.URL.Host, req.URL.User = n.base.Scheme, n.base.Host, n.base.User
	return n.client.Do(req)
}

// newIndex names an index that is deleted in the end.
func (n node) newIndex(t testing.TB) string { return engines.SearchIndex(t, n.engine) }

// ask sends a request by hand.
func (n node) ask(ctx context.Context, t testing.TB, method, path string, body any) (int, map[string]any) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, path, reader)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := n.Perform(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	reply := map[string]any{}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, reply
}

// must sends a request by hand that has to succeed.
func (n node) must(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	status, reply := n.ask(t.Context(), t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %v", method, path, status, reply)
	}
	return reply
}

// source is the document of a resource as it is stored.
func (n node) source(t testing.TB, index, resource string) map[string]any {
	t.Helper()
	status, reply := n.ask(t.Context(), t, http.MethodGet, "/"+index+"/_doc/"+url.PathEscape(resource), nil)
	if status != http.StatusOK {
		t.Fatalf("document of %q: %d %v", resource, status, reply)
	}
	return reply["_source"].(map[string]any)
}

func newStore(t testing.TB, n eslock.Performer, opts *eslock.Options) *eslock.Store {
	t.Helper()
	s := eslock.New(n, opts)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func request(resource, lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: time.Hour}
}

func shared(q driver.AcquireRequest, limit int) driver.AcquireRequest {
	q.Mode, q.Limit = driver.Shared, limit
	return q
}

func mustAcquire(t testing.TB, s driver.Store, q driver.AcquireRequest) driver.HoldRef {
	t.Helper()
	g, err := s.Acquire(t.Context(), q)
	if err != nil {
		t.Fatalf("acquire of %q by %q: %v", q.Resource, q.LockID, err)
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
}

// eventually polls until is true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Errorf("waited a minute in vain until %s", what)
			return
		}
	}
}
