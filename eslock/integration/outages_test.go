package eslock_test

import (
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/engines"
)

// A replica gets no writes. The store asks a node with neither the replica nor the
// primary.
func TestOutages(t *testing.T) {
	t.Parallel()
	const index = "locks"
	cluster := engines.NewOpenSearchCluster(t, index)
	drivertest.Outages(t, func(t *testing.T) *drivertest.Harness {
		e, name := cluster.Last()
		n := newNode(t, e)
		n.Must(t, http.MethodDelete, "/"+index+"?ignore_unavailable=true", nil)
		n.Must(t, http.MethodPut, "/"+index, map[string]any{"settings": map[string]any{
			"number_of_shards": 1, "number_of_replicas": 1, "index.routing.allocation.exclude._name": name,
		}})
		h := n.harnessOf(index, n)
		h.HoldCopies = func(t *testing.T) (resume func()) { return cluster.HoldReplica(t) }
		return h
	})
}

// restarted crashes a node that has all data.
func restarted(t *testing.T, server *engines.SearchServer) {
	drivertest.Outages(t, func(t *testing.T) *drivertest.Harness {
		n := newNode(t, server.Engine)
		h := n.harness(t, n)
		h.Restart = func(t *testing.T) { server.Restart(t) }
		return h
	})
}
