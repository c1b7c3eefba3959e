package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// sentinelMaster is the Sentinel's name for the primary.
const sentinelMaster = "holdfast"

// RedisSentinel is a primary, its replica and a Sentinel, for one test. The Sentinel takes the
// primary for lost when it has not answered for a second, and then promotes the replica. A
// server that comes back becomes a replica after some seconds.
type RedisSentinel struct {
	// Primary and Replica have their original roles as names.
	Primary, Replica *RedisServer
	// URL is the Sentinel's URL, with the name of the primary.
	URL string

	sentinel int // its port
	dead     *RedisServer
}

// NewRedisSentinel starts the three, and returns when the replica has all data of the primary
// and the Sentinel knows both. They end with the test.
func NewRedisSentinel(t testing.TB) *RedisSentinel {
	t.Helper()
	primary := NewRedis(t, "--"+syncDelay, "0")
	port := primary.port(t)
	replica := NewRedisReplica(t, primary)

	folder, err := nodeFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`bind 127.0.0.1
dir %q
sentinel monitor %s 127.0.0.1 %d 1
sentinel down-after-milliseconds %[2]s 1000
sentinel failover-timeout %[2]s 3000
`, folder, sentinelMaster, port)
	if err := os.WriteFile(filepath.Join(folder, redisConfig), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := startRedis(context.WithoutCancel(t.Context()), RedisUsual, folder, 0, "--sentinel")
	redisKind.need(t, err)
	t.Cleanup(p.end)
	sentinel := redisKind.engine(p.url)
	askRedis(t, sentinel.port(t), func(ctx context.Context, client *redis.Client) error {
		// By default it pings once a second, so that one late answer would make the primary
		// lost, and it takes 8 s or more to make an old primary a replica.
		if err := client.Do(ctx, "sentinel", "debug", "ping-period", 400, "info-period", 1000, "publish-period", 500).Err(); err != nil {
			return err
		}
		return poll(ctx, func() error {
			replicas, err := client.Do(ctx, "sentinel", "replicas", sentinelMaster).Slice()
			if err == nil && len(replicas) != 1 {
				err = fmt.Errorf("the Sentinel knows %d replicas", len(replicas))
			}
			return err
		})
	})
	return &RedisSentinel{
		Primary: primary, Replica: replica, URL: p.url + "?master_name=" + sentinelMaster, sentinel: sentinel.port(t),
	}
}

// FailOver kills the current primary, and returns when the Sentinel has promoted the other
// server, which takes some seconds.
func (s *RedisSentinel) FailOver(t testing.TB) {
	t.Helper()
	dead, next := s.Primary, s.Replica
	if s.primary(t) == next.port(t) {
		dead, next = next, dead
	}
	s.dead = dead
	dead.Stop()
	askRedis(t, s.sentinel, func(ctx context.Context, _ *redis.Client) error {
		return poll(ctx, func() error {
			if s.primary(t) != next.port(t) {
				return errors.New("the Sentinel still goes by the primary that was killed")
			}
			return nil
		})
	})
	askRedis(t, next.port(t), func(ctx context.Context, client *redis.Client) error {
		return poll(ctx, func() error {
			info, err := client.Info(ctx, "replication").Result()
			if err == nil && redisFact(info, "role") != "master" {
				err = errors.New("the replica is not the primary yet")
			}
			return err
		})
	})
}

// Rejoin starts the killed server with the data on its disk, and returns when it is a replica
// with all data of the primary.
func (s *RedisSentinel) Rejoin(t testing.TB) {
	t.Helper()
	s.dead.Restart(t)
	s.dead.awaitPrimary(t)
}

// primary returns the port of the server that the Sentinel takes for the primary.
func (s *RedisSentinel) primary(t testing.TB) (port int) {
	t.Helper()
	askRedis(t, s.sentinel, func(ctx context.Context, client *redis.Client) error {
		address, err := client.Do(ctx, "sentinel", "get-master-addr-by-name", sentinelMaster).StringSlice()
		if err == nil && len(address) != 2 {
			err = fmt.Errorf("the Sentinel answers %q", address)
		}
		if err != nil {
			return err
		}
		port, err = strconv.Atoi(address[1])
		return err
	})
	return port
}
