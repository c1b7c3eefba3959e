package engines

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// syncDelay is the setting for how long a primary waits for more replicas before it sends one
// its data: not at all. Replicas have the setting too, because they may become the primary.
const syncDelay = "repl-diskless-sync-delay"

// NewRedisReplica starts a replica of a server, of the same release, and returns when it has
// all data of the primary. It ends with the test.
func NewRedisReplica(t testing.TB, primary *RedisServer) *RedisServer {
	t.Helper()
	askRedis(t, primary.port(t), func(ctx context.Context, client *redis.Client) error {
		return client.ConfigSet(ctx, syncDelay, "0").Err()
	})
	replica := NewRedisRelease(t, primary.release, "--replicaof", "127.0.0.1", strconv.Itoa(primary.port(t)), "--"+syncDelay, "0")
	replica.awaitPrimary(t)
	return replica
}

// awaitPrimary returns when a replica has all data of its primary.
func (s *RedisServer) awaitPrimary(t testing.TB) {
	t.Helper()
	askRedis(t, s.port(t), func(ctx context.Context, client *redis.Client) error {
		return poll(ctx, func() error {
			info, err := client.Info(ctx, "replication").Result()
			if err == nil && redisFact(info, "master_link_status") != "up" {
				err = fmt.Errorf("the replica is not ready: %s", info)
			}
			return err
		})
	})
}
