package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/engines"
)

// searchConnections is how many idle connections a client keeps.
const searchConnections = 64

// searchNode is a node that the tests use, with an index for one measurement.
type searchNode struct {
	base   *url.URL
	client *http.Client
	index  string
	server string // its name in results
}

// openSearch connects to a node of OpenSearch.
func openSearch(ctx context.Context) *searchNode {
	return openNode(must(engines.StartOpenSearch(ctx)), "OpenSearch")
}

// openElasticsearch connects to a node of Elasticsearch.
func openElasticsearch(ctx context.Context) *searchNode {
	return openNode(must(engines.StartElasticsearch(ctx)), "Elasticsearch")
}

func openNode(engine engines.Engine, server string) *searchNode {
	u := must(url.Parse(engine.URL))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: searchConnections}}
	return &searchNode{base: u, client: client, index: engines.Name(), server: server}
}

// Perform implements eslock.Performer with net/http alone.
func (n *searchNode) Perform(req *http.Request) (*http.Response, error) {
	req.URL.Scheme, req.URL.Host, req.URL.User = n.base.Scheme, n.base.Host, n.base.User
	return n.client.Do(req)
}

// close deletes the index.
func (n *searchNode) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer n.client.CloseIdleConnections()
	return n.ask(ctx, http.MethodDelete, "/"+n.index+"?ignore_unavailable=true", nil, nil)
}

// ask sends a request with a JSON body and decodes the answer.
func (n *searchNode) ask(ctx context.Context, method, path string, body []byte, reply any) error {
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := n.Perform(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	case reply == nil:
		return nil
	}
	return json.Unmarshal(text, reply)
}

// onOpenSearch runs a measurement on a node of OpenSearch, with a Client of a store in its
// index.
func onOpenSearch(ctx context.Context, do func(n *searchNode, client *holdfast.Client) []result) []result {
	n := openSearch(ctx)
	defer finish(n.close)
	client := n.lockBy(ctx, n)
	defer finish(client.Close)
	return do(n, client)
}

// lockBy returns a Client of a store in the index that sends by performer. It has been used
// once, so that first-time requests are done.
func (n *searchNode) lockBy(ctx context.Context, performer eslock.Performer) *holdfast.Client {
	client := holdfast.New(eslock.New(performer, &eslock.Options{Index: n.index}), nil)
	defer undo(client.Close)
	check(lockAndUnlock(ctx, client, "first"))
	return client
}
