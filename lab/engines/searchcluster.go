package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// SearchCluster is a cluster of three nodes of OpenSearch for one test. The index has its
// primary on one node and a replica on another.
type SearchCluster struct {
	nodes []*searchNode
	index string
	dead  *searchNode
}

// searchNode is a node of a cluster.
type searchNode struct {
	own
	name      string
	transport int // the port for other nodes
}

// NewOpenSearchCluster starts the nodes. FailOver kills the node with the primary of the index.
// The nodes end with the test.
func NewOpenSearchCluster(t testing.TB, index string) *SearchCluster {
	t.Helper()
	c := &SearchCluster{index: index}
	for i := range 3 {
		folder, err := nodeFolder(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		port, err := freePort(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := &searchNode{own: own{kind: openSearch, folder: folder}, name: fmt.Sprint("node-", i), transport: port}
		n.start = func(ctx context.Context, port int) (*process, error) {
			var all []string
			for _, other := range c.nodes {
				all = append(all, fmt.Sprintf("%s=%d", other.name, other.transport))
			}
			return startSearch(ctx, n.kind.name, folder, port, n.name, strconv.Itoa(n.transport), strings.Join(all, ","))
		}
		n.endWithTest(t)
		c.nodes = append(c.nodes, n)
	}
	// No node is ready before it has met another one.
	errs := make([]error, len(c.nodes))
	var started sync.WaitGroup
	for i, n := range c.nodes {
		started.Go(func() { n.process, errs[i] = n.start(context.WithoutCancel(t.Context()), 0) })
	}
	started.Wait()
	openSearch.need(t, errors.Join(errs...))
	for _, n := range c.nodes {
		n.Engine = n.kind.engine(n.process.url)
	}
	return c
}

// Hosts returns the addresses of the nodes, separated by commas.
func (c *SearchCluster) Hosts(t testing.TB) string {
	t.Helper()
	var hosts []string
	for _, n := range c.nodes {
		u, err := url.Parse(n.URL)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, u.Host)
	}
	return strings.Join(hosts, ",")
}

// Last returns one of the nodes, and its name, with which an index can be kept off the node.
func (c *SearchCluster) Last() (e Engine, name string) {
	n := c.nodes[len(c.nodes)-1]
	return n.Engine, n.name
}

// HoldReplica suspends the node with the index's replica until resume is called. After half a
// minute the other nodes would continue without it.
func (c *SearchCluster) HoldReplica(t testing.TB) (resume func()) {
	t.Helper()
	c.Settle(t)
	n := c.holder(t, replicaShard, nil)
	n.Freeze(t)
	return func() { n.Thaw(t) }
}

// FailOver kills the node with the index's primary, and returns when the replica has taken
// over.
func (c *SearchCluster) FailOver(t testing.TB) {
	t.Helper()
	c.dead = c.holder(t, primaryShard, nil)
	c.dead.Stop()
	c.holder(t, primaryShard, c.dead)
}

// Rejoin starts the killed node with its data, and returns when the index has its replica
// again.
func (c *SearchCluster) Rejoin(t testing.TB) {
	t.Helper()
	c.dead.begin(t, c.dead.start, c.dead.port(t))
	c.Settle(t)
}

// Settle returns when the index has its replica.
func (c *SearchCluster) Settle(t testing.TB) {
	t.Helper()
	c.eventually(t, func(ctx context.Context) error {
		var health struct{ Status string }
		if err := c.get(ctx, "/_cluster/health/"+c.index, &health); err != nil {
			return err
		}
		if health.Status != "green" {
			return fmt.Errorf("the index is %s", health.Status)
		}
		return nil
	})
}

// The kinds of shards, as nodes name them.
const (
	primaryShard = "p"
	replicaShard = "r"
)

// holder waits until the index's shard is on a node other than the given one, and returns that
// node.
func (c *SearchCluster) holder(t testing.TB, shard string, other *searchNode) (found *searchNode) {
	t.Helper()
	c.eventually(t, func(ctx context.Context) error {
		var shards []struct{ Prirep, State, Node string }
		if err := c.get(ctx, "/_cat/shards/"+c.index+"?format=json", &shards); err != nil {
			return err
		}
		for _, s := range shards {
			for _, n := range c.nodes {
				if s.Prirep == shard && s.State == "STARTED" && s.Node == n.name && n != other {
					found = n
					return nil
				}
			}
		}
		return fmt.Errorf("no node has the shard %s: %+v", shard, shards)
	})
	return found
}

func (c *SearchCluster) eventually(t testing.TB, try func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startup)
	defer cancel()
	if err := poll(ctx, func() error { return try(ctx) }); err != nil {
		t.Fatalf("the cluster: %v", err)
	}
}

// get sends a request to a running node.
func (c *SearchCluster) get(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, n := range c.nodes {
		if n.process == nil {
			continue
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL+path, nil)
		if err != nil {
			return err
		}
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, response.Status)
		}
		return json.NewDecoder(response.Body).Decode(answer)
	}
	return errors.New("no node runs")
}
