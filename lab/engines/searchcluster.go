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

// SearchCluster are three nodes of OpenSearch, which belong to one test. An index
// has its primary on one of them and a replica on another.
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

// NewOpenSearchCluster starts the nodes. FailOver looks for the primary of that
// index. They end with the test.
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
		n.endsWith(t)
		c.nodes = append(c.nodes, n)
	}
	// None is ready before it has met another.
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

// Hosts are the addresses of the nodes, with commas between.
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

// Last is one of the nodes, and its name, by which an index may be kept from it.
func (c *SearchCluster) Last() (e Engine, name string) {
	n := c.nodes[len(c.nodes)-1]
	return n.Engine, n.name
}

// HoldReplica lets the node stand still that has the index's replica, until resume is
// called. After half a minute the others would go on without it.
func (c *SearchCluster) HoldReplica(t testing.TB) (resume func()) {
	t.Helper()
	c.Settle(t)
	n := c.holder(t, replicaShard, nil)
	n.Freeze(t)
	return func() { n.Thaw(t) }
}

// FailOver kills the node that has the index's primary, and returns when the replica
// has taken its place.
func (c *SearchCluster) FailOver(t testing.TB) {
	t.Helper()
	c.dead = c.holder(t, primaryShard, nil)
	c.dead.Stop()
	c.holder(t, primaryShard, c.dead)
}

// Rejoin starts the node that FailOver killed, with its data, and returns when the
// index has its replica again.
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

// holder waits until the index's shard is on a node, which is another one than that,
// and returns it.
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

// get asks a node that runs.
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
