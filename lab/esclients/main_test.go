//go:build officialclients

package esclients_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	elasticsearch8 "github.com/elastic/go-elasticsearch/v8"
	elasticsearch9 "github.com/elastic/go-elasticsearch/v9"
	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// official is one of the clients.
type official struct {
	// checks reports whether the client accepts answers of Elasticsearch only.
	checks  bool
	connect func(address string, via http.RoundTripper) (eslock.Performer, error)
}

var officials = map[string]official{
	"go-elasticsearch v8": {true, func(address string, via http.RoundTripper) (eslock.Performer, error) {
		return elasticsearch8.NewClient(elasticsearch8.Config{Addresses: []string{address}, Transport: via})
	}},
	"go-elasticsearch v8, typed": {true, func(address string, via http.RoundTripper) (eslock.Performer, error) {
		return elasticsearch8.NewTypedClient(elasticsearch8.Config{Addresses: []string{address}, Transport: via})
	}},
	"go-elasticsearch v9": {true, func(address string, via http.RoundTripper) (eslock.Performer, error) {
		return elasticsearch9.New(elasticsearch9.WithAddresses(address), elasticsearch9.WithTransportOptions(elastictransport.WithTransport(via)))
	}},
	"opensearch-go v4": {false, func(address string, via http.RoundTripper) (eslock.Performer, error) {
		return opensearch.NewClient(opensearch.Config{Addresses: []string{address}, Transport: via})
	}},
	"opensearchapi v4": {false, func(address string, via http.RoundTripper) (eslock.Performer, error) {
		client, err := opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{Addresses: []string{address}, Transport: via}})
		if err != nil {
			return nil, err
		}
		return client.Client, nil
	}},
}

// refuses reports whether the client accepts no answer of this server.
func (o official) refuses(e engines.Engine) bool { return o.checks && e.Kind == "opensearch" }

// at returns the client connected to an address until the test ends.
func (o official) at(t *testing.T, address string, via http.RoundTripper) eslock.Performer {
	t.Helper()
	client, err := o.connect(address, via)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := client.(io.Closer); ok {
		t.Cleanup(func() { _ = c.Close() })
	}
	return client
}

// transport returns a transport whose connections end with the test.
func transport(t *testing.T) *http.Transport {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// newStore returns an initialized store on an index that the test deletes at its end.
func newStore(t *testing.T, client eslock.Performer, index string) *eslock.Store {
	t.Helper()
	s := eslock.New(client, &eslock.Options{Index: index})
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
