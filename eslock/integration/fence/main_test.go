// Package fence_test tests eslock/fence on nodes.
package fence_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/eslock/fence"
	"github.com/holdfast-go/holdfast/lab/esnode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is a JSON object.
type object = map[string]any

// node is a server, with an index of the test that does not exist yet.
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

// make creates the index, without replicas.
func (n node) make(t testing.TB, mapping object) {
	t.Helper()
	n.Must(t, http.MethodPut, "/"+n.index, object{
		"settings": object{"number_of_shards": 2, "number_of_replicas": 0}, "mappings": mapping,
	})
}

// put stores a document without the fence.
func (n node) put(t testing.TB, id string, document any) {
	t.Helper()
	n.Must(t, http.MethodPut, n.path(id), document)
}

func (n node) path(id string) string { return "/" + n.index + "/_doc/" + url.PathEscape(id) }

// source returns the document as it is stored, in JSON, with numbers as they are written;
// empty if it does not exist.
func (n node) source(t testing.TB, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := n.Perform(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	decoder := json.NewDecoder(res.Body)
	decoder.UseNumber()
	var reply object
	if err := decoder.Decode(&reply); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode == http.StatusNotFound {
		return ""
	}
	text, err := json.Marshal(reply["_source"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
