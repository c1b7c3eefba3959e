package engines

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// noDelay lets a replica have all at once that a primary has. It is for both, for
// either may be the primary one day.
var noDelay = []string{"--repl-diskless-sync-delay", "0"}

// NewRedisReplica starts a replica of a server, of its release, and returns when it
// has all that the primary has. It ends with the test.
func NewRedisReplica(t testing.TB, primary *RedisServer) *RedisServer {
	t.Helper()
	replica := NewRedisRelease(t, primary.release, append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(primary.port(t))}, noDelay...)...)
	replica.awaitPrimary(t)
	return replica
}

// awaitPrimary returns when a replica has all that its primary has.
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
