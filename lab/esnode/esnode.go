// Package esnode sends HTTP requests to a node of OpenSearch or Elasticsearch without a client
// library. Tests of eslock and of its drop-in use it as the store's client, and to read and
// change documents by hand.
package esnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/engines"
)

// Node is a node for one test. It is an eslock.Performer.
type Node struct {
	Engine engines.Engine
	Base   *url.URL
	Client *http.Client
}

// New returns a Node whose connections end with the test.
func New(t testing.TB, e engines.Engine) Node {
	t.Helper()
	base, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	return Node{Engine: e, Base: base}.Dialing(t, nil)
}

var errEnded = errors.New("the test has ended")

// Dialing returns the node with connections of its own, made by dial (nil: the default dialer).
// They end with the test.
func (n Node) Dialing(t testing.TB, dial func(ctx context.Context, network, address string) (net.Conn, error)) Node {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	// Clean-ups after the test must not open connections that nothing closes.
	var ended atomic.Bool
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ended.Load() {
			return nil, errEnded
		}
		return dial(ctx, network, address)
	}
	t.Cleanup(func() {
		ended.Store(true)
		transport.CloseIdleConnections()
	})
	n.Client = &http.Client{Transport: transport}
	return n
}

// OnBoth runs a test on a node of OpenSearch and on one of Elasticsearch.
func OnBoth(t *testing.T, test func(t *testing.T, n Node)) {
	t.Helper()
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) { test(t, New(t, e)) })
}

// Perform implements eslock.Performer.
func (n Node) Perform(req *http.Request) (*http.Response, error) {
	n.address(req)
	return n.Client.Do(req)
}

func (n Node) address(req *http.Request) {
	req.URL.Scheme, req.URL.Host, req.URL.User = n.Base.Scheme, n.Base.Host, n.Base.User
}

// Index returns the name of an index that is deleted when the test ends.
func (n Node) Index(t testing.TB) string {
	t.Helper()
	return engines.SearchIndex(t, n.Engine)
}

// Ask sends a request with a JSON body and returns the status and the decoded answer.
func (n Node) Ask(ctx context.Context, t testing.TB, method, path string, body any) (int, map[string]any) {
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

// Must is Ask for a request that has to succeed.
func (n Node) Must(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	status, reply := n.Ask(t.Context(), t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %v", method, path, status, reply)
	}
	return reply
}

// Source returns the stored document of a resource.
func (n Node) Source(t testing.TB, index, resource string) map[string]any {
	t.Helper()
	status, reply := n.Ask(t.Context(), t, http.MethodGet, "/"+index+"/_doc/"+url.PathEscape(resource), nil)
	if status != http.StatusOK {
		t.Fatalf("document of %q: %d %v", resource, status, reply)
	}
	return reply["_source"].(map[string]any)
}

// InIndex returns the node for a program with a fixed index: it replaces eslock.DefaultIndex
// with index in requests, and back in answers. No other text in them may contain the name.
func (n Node) InIndex(index string) InIndex { return InIndex{n, index} }

// InIndex is an eslock.Performer, and an http.RoundTripper for clients that know the address.
type InIndex struct {
	node  Node
	index string
}

// Perform implements eslock.Performer.
func (x InIndex) Perform(req *http.Request) (*http.Response, error) {
	x.node.address(req)
	return x.RoundTrip(req)
}

// RoundTrip implements http.RoundTripper.
func (x InIndex) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Path = strings.ReplaceAll(req.URL.Path, eslock.DefaultIndex, x.index)
	req.URL.RawPath = strings.ReplaceAll(req.URL.RawPath, eslock.DefaultIndex, x.index)
	if req.Body != nil {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte(eslock.DefaultIndex), []byte(x.index))
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(bytes.NewReader(text)), nil, int64(len(text))
	}
	res, err := x.node.Client.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	text = bytes.ReplaceAll(text, []byte(x.index), []byte(eslock.DefaultIndex))
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return res, nil
}
