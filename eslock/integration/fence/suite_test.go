package fence_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/driver/fencetest"
	"github.com/holdfast-go/holdfast/eslock/fence"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/esnode"
)

func TestFence(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
			n := esnode.New(t, e)
			return node{n, n.Index(t)}.harness(t)
		})
	})
}

// harness is for a document with the value 1.
func (n node) harness(t *testing.T) *fencetest.Harness {
	n.make(t, object{"dynamic": false})
	n.put(t, "1", object{"n": 1})
	d := n.document("1")
	stored := func(t *testing.T, doc any) {
		t.Helper()
		if err := json.Unmarshal([]byte(n.source(t, n.path("1"))), doc); err != nil {
			t.Fatal(err)
		}
	}
	damages := make(map[string]func(t *testing.T))
	for name, v := range map[string]any{
		"a text": "7", "an array": []int{3, 100}, "an array of one": []int{3}, "an object": object{"n": 1}, "true": true, "beyond all": 1e300,
	} {
		damages[name] = func(t *testing.T) { n.put(t, "1", object{"n": 1, fence.Field: v}) }
	}
	remade := func(mapping object) func(t *testing.T) {
		return func(t *testing.T) {
			t.Helper()
			n.Must(t, http.MethodDelete, "/"+n.index, nil)
			n.make(t, mapping)
			n.put(t, "1", object{"n": 1})
		}
	}
	return &fencetest.Harness{
		Claim: d.Claim,
		Write: func(ctx context.Context, value int64, token uint64) error {
			return d.Update(ctx, object{"n": value}, token)
		},
		Put: func(ctx context.Context, value int64, token uint64) error {
			return d.Put(ctx, object{"n": value}, token)
		},
		Value: func(t *testing.T) int64 {
			var doc struct{ N int64 }
			stored(t, &doc)
			return doc.N
		},
		Seen: func(t *testing.T) uint64 {
			var doc struct{ Fence uint64 }
			stored(t, &doc)
			return doc.Fence
		},
		NotFound: fence.ErrNotFound,
		Remove:   func(t *testing.T) { n.Must(t, http.MethodDelete, n.path("1"), nil) },
		Damages:  damages,
		Losses: map[string]func(t *testing.T){
			"a source without the field": remade(object{"dynamic": false, "_source": object{"excludes": []string{fence.Field}}}),
			"a source of other fields":   remade(object{"dynamic": false, "_source": object{"includes": []string{"n"}}}),
		},
	}
}
