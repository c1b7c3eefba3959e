// Package esfence tests eslock/fence on nodes.
package esfence

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/eslock/fence"
	"github.com/holdfast-go/holdfast/tests/esnode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is one in JSON.
type object = map[string]any

// node is a server, and an index of the test's own, which is not there yet.
type node struct {
	esnode.Node
	index string
}

// onBoth runs a test on each kind of server.
func onBoth(t *testing.T, test func(t *testing.T, n node)) {
	esnode.OnBoth(t, func(t *testing.T, n esnode.Node) { test(t, node{n, n.Index(t)}) })
}

func (n node) document(id string) fence.Document {
	return fence.Document{Client: n, Index: n.index, ID: id}
}

// ask sends a request by hand, of which a text is the body as it is, and keeps
// numbers as they are written.
func (n node) ask(t testing.TB, method, path string, body any) (int, object) {
	t.Helper()
	var text []byte
	switch b := body.(type) {
	case nil:
	case string:
		text = []byte(b)
	default:
		var err error
		if text, err = json.Marshal(b); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := n.Perform(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	decoder := json.NewDecoder(res.Body)
	decoder.UseNumber()
	reply := object{}
	if err := decoder.Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, reply
}

// must sends a request by hand that has to succeed.
func (n node) must(t testing.TB, method, path string, body any) object {
	t.Helper()
	status, reply := n.ask(t, method, path, body)
	if status/100 != 2 {
		t.Fatalf("%s %s: %d %v", method, path, status, reply)
	}
	return reply
}

// make makes the index, without replicas.
func (n node) make(t testing.TB, mapping object) {
	t.Helper()
	n.must(t, http.MethodPut, "/"+n.index, object{
		"settings": object{"number_of_shards": 2, "number_of_replicas": 0}, "mappings": mapping,
	})
}

// drop deletes an index, at the end of a test.
func (n node) drop(t testing.TB, index string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "/"+index+"?ignore_unavailable=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := n.Perform(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("deleting index %s: %s", index, res.Status)
	}
}

// put stores a document past the fence.
func (n node) put(t testing.TB, id string, document any) {
	t.Helper()
	n.must(t, http.MethodPut, n.path(id), document)
}

func (n node) path(id string) string { return "/" + n.index + "/_doc/" + url.PathEscape(id) }

// source is the document as it is stored, in JSON; empty if it is not there.
func (n node) source(t testing.TB, path string) string {
	t.Helper()
	status, reply := n.ask(t, http.MethodGet, path, nil)
	if status == http.StatusNotFound {
		return ""
	}
	text, err := json.Marshal(reply["_source"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
