package engines

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// RedisCluster is a cluster of three masters for one test.
type RedisCluster struct {
	// Nodes have a third of the slots each, in order.
	Nodes []*RedisServer
	// URL has the addresses of all nodes.
	URL string
}

// NewRedisCluster starts a cluster, and returns when each node serves its slots and knows the
// nodes of the others. It ends with the test.
func NewRedisCluster(t testing.TB) *RedisCluster {
	t.Helper()
	c := &RedisCluster{}
	var addresses []string
	for range 3 {
		// The others take a node for lost if it does not answer for this long.
		s := NewRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		c.Nodes = append(c.Nodes, s)
		addresses = append(addresses, loopback(s.port(t)))
	}
	c.URL = "redis://" + strings.Join(addresses, ",")
	for i, s := range c.Nodes {
		c.ask(t, s, func(ctx context.Context, client *redis.Client) error {
			from, to := i*slots/len(c.Nodes), (i+1)*slots/len(c.Nodes)-1
			if err := client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
				return err
			}
			if err := client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
				return err
			}
			return client.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(c.Nodes[0].port(t))).Err()
		})
	}
	for _, s := range c.Nodes {
		c.ask(t, s, func(ctx context.Context, client *redis.Client) error {
			return poll(ctx, func() error {
				info, err := client.ClusterInfo(ctx).Result()
				if err != nil {
					return err
				}
				if redisFact(info, "cluster_state") != "ok" || redisFact(info, "cluster_slots_ok") != fmt.Sprint(slots) ||
					redisFact(info, "cluster_size") != fmt.Sprint(len(c.Nodes)) {
					return fmt.Errorf("the cluster is not ready: %s", info)
				}
				return nil
			})
		})
	}
	return c
}

func (c *RedisCluster) ask(t testing.TB, s *RedisServer, call func(ctx context.Context, client *redis.Client) error) {
	t.Helper()
	askRedis(t, s.port(t), call)
}

// askRedis calls a server, for a minute at most.
func askRedis(t testing.TB, port int, call func(ctx context.Context, client *redis.Client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := redisClient(port)
	defer client.Close()
	if err := call(ctx, client); err != nil {
		t.Fatalf("the server at port %d: %v", port, err)
	}
}
