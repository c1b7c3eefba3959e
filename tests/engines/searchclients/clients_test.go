// Package searchclients tests what the official clients of Elasticsearch and
// OpenSearch do with the answers of the other one. It is alone, because they take
// minutes to compile.
package searchclients

import (
	"net/http"
	"strings"
	"testing"

	elasticsearch8 "github.com/elastic/go-elasticsearch/v8"
	elasticsearch9 "github.com/elastic/go-elasticsearch/v9"
	"github.com/opensearch-project/opensearch-go/v4"

	"github.com/holdfast-go/holdfast/tests/engines"
)

// performer is what all official clients are.
type performer interface {
	Perform(request *http.Request) (*http.Response, error)
}

// fresh is a transport that keeps no connection, and so no goroutine.
func fresh() *http.Transport { return &http.Transport{DisableKeepAlives: true} }

// passing is a transport that says what the clients of Elasticsearch want to
// hear.
type passing struct{ http.RoundTripper }

func (p passing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Header.Set("X-Elastic-Product", "Elasticsearch")
	}
	return response, err
}

var clients = []struct {
	name    string
	connect func(url string, transport http.RoundTripper) (performer, error)
	// checks says that it takes answers of Elasticsearch alone.
	checks bool
}{
	{"go-elasticsearch v8", func(url string, transport http.RoundTripper) (performer, error) {
		return elasticsearch8.NewClient(elasticsearch8.Config{Addresses: []string{url}, Transport: transport})
	}, true},
	{"go-elasticsearch v9", func(url string, transport http.RoundTripper) (performer, error) {
		return elasticsearch9.NewClient(elasticsearch9.Config{Addresses: []string{url}, Transport: transport})
	}, true},
	{"opensearch-go v4", func(url string, transport http.RoundTripper) (performer, error) {
		return opensearch.NewClient(opensearch.Config{Addresses: []string{url}, Transport: transport})
	}, false},
}

// A client that checks who answers does so after the request was done: what it
// reports as an error was applied.
func TestOfficialClients(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		path := "/" + engines.SearchIndex(t, e)
		for _, c := range clients {
			for i, transport := range []http.RoundTripper{fresh(), passing{fresh()}} {
				client, err := c.connect(e.URL, transport)
				if err != nil {
					t.Fatal(c.name, err)
				}
				id := strings.ReplaceAll(c.name, " ", "_") + []string{"", "_passing"}[i]
				body := strings.NewReader(`{"scripted_upsert": true, "upsert": {}, "script": {"source": "ctx._source.n = 1"}}`)
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, path+"/_update/"+id, body)
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Content-Type", "application/json")
				response, err := client.Perform(request)
				if refused := c.checks && e.Kind == "opensearch" && i == 0; refused != (err != nil) {
					t.Errorf("%s, transport %d: got %v, want an error: %t", c.name, i, err, refused)
				}
				if err == nil {
					response.Body.Close()
					if response.StatusCode != http.StatusCreated {
						t.Errorf("%s, transport %d: status %d", c.name, i, response.StatusCode)
					}
				}
				if status := get(t, e.URL+path+"/_doc/"+id); status != http.StatusOK {
					t.Errorf("%s, transport %d: the update was not done: status %d", c.name, i, status)
				}
			}
		}
	})
}

func get(t *testing.T, url string) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := fresh().RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}
