package redislock_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/redislock"
)

// moveSlot moves the slot of a key, and its keys, to another node of the Cluster.
// Half-way, when the keys have moved and the slot has not, it calls during.
func moveSlot(t *testing.T, cluster *engines.RedisCluster, key string, during func()) {
	t.Helper()
	ctx := t.Context()
	nodes := make([]*redis.Client, len(cluster.Nodes))
	ids := make([]string, len(nodes))
	for i, node := range cluster.Nodes {
		nodes[i] = connect(t, options(t, node.URL))
		ids[i] = nodes[i].Do(ctx, "CLUSTER", "MYID").Val().(string)
	}
	slot := nodes[0].ClusterKeySlot(ctx, key).Val()
	source := -1
	for i, node := range nodes {
		if err := node.Get(ctx, key).Err(); !redis.HasErrorPrefix(err, "MOVED") {
			source = i
		}
	}
	if source < 0 {
		t.Fatalf("no node has the key %s", key)
	}
	target := (source + 1) % len(nodes)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(nodes[target].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source]).Err())
	must(nodes[source].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target]).Err())
	keys := nodes[source].ClusterGetKeysInSlot(ctx, int(slot), 100).Val()
	for _, k := range keys {
		host, port, err := net.SplitHostPort(options(t, cluster.Nodes[target].URL).Addr)
		must(err)
		must(nodes[source].Do(ctx, "MIGRATE", host, port, k, 0, 5000).Err())
	}
	during()
	for _, i := range []int{target, source} {
		must(nodes[i].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[target]).Err())
	}
}

// Some services offer a Cluster at one address, as if it were one server. It refuses a
// script for keys in several slots.
func TestClusterThatPassesForOneServer(t *testing.T) {
	t.Parallel()
	node := connect(t, options(t, engines.NewRedisCluster(t).Nodes[0].URL))
	s := redislock.New(node, nil) // Init would refuse a node
	t.Cleanup(func() { closeAll(t, s) })
	var qs []driver.RenewRequest
	slots := make(map[int64]bool)
	for i := 0; len(qs) < 5; i++ {
		q := ask.Request(fmt.Sprint("r", i), "a")
		key := redislock.DefaultPrefix + q.Resource
		if redis.HasErrorPrefix(node.Get(t.Context(), key).Err(), "MOVED") {
			continue
		}
		qs = append(qs, driver.RenewRequest{HoldRef: ask.Granted(t, s, q), TTL: 2 * time.Hour})
		slots[node.ClusterKeySlot(t.Context(), key).Val()] = true
	}
	if len(slots) < 2 {
		t.Fatalf("the keys are in %d slots", len(slots))
	}
	for range 2 {
		rs, err := s.Renew(t.Context(), qs)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if r.Err != nil || r.Left < time.Hour {
				t.Errorf("renewal of %q: %+v", qs[i].Resource, r)
			}
		}
	}
}
