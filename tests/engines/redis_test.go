package engines_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/tests/engines"
	"github.com/holdfast-go/holdfast/tests/internal/thorough"
)

// redisAt returns a client that does not repeat what failed.
func redisAt(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries = -1
	client := redis.NewClient(options)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// get is the value of a key, "" if there is none.
func get(t *testing.T, client redis.Cmdable, key string) string {
	t.Helper()
	value, err := client.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return value
}

func set(t *testing.T, client redis.Cmdable, key, value string) {
	t.Helper()
	if err := client.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// within repeats until there is no error.
func within(t *testing.T, limit time.Duration, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", limit, err)
		}
	}
}

func awaitValue(t *testing.T, client redis.Cmdable, key, want string) {
	t.Helper()
	within(t, time.Minute, func() error {
		got, err := client.Get(t.Context(), key).Result()
		if err == nil && got != want {
			err = fmt.Errorf("%s is %q, want %q", key, got, want)
		}
		return err
	})
}

func TestKeysAreDeletedWithTheTest(t *testing.T) {
	client := redisAt(t, engines.Redis(t).URL)
	other := engines.RedisPrefix(t) + "stays"
	set(t, client, other, "1")
	var prefix string
	t.Run("inner", func(t *testing.T) {
		prefix = engines.RedisPrefix(t)
		for i := range 3000 {
			set(t, client, fmt.Sprint(prefix, i), "1")
		}
	})
	keys, err := client.Keys(t.Context(), prefix+"*").Result()
	if err != nil || len(keys) != 0 {
		t.Errorf("%d keys are left (%v)", len(keys), err)
	}
	if get(t, client, other) != "1" {
		t.Error("the key of another test is gone")
	}
}

func TestRedisRestart(t *testing.T) {
	for _, tc := range []struct {
		name    string
		config  []string
		restart func(s *engines.RedisServer, t testing.TB)
		want    string
	}{
		{"in memory", nil, (*engines.RedisServer).Restart, ""},
		{"on disk", []string{"--appendonly", "yes"}, (*engines.RedisServer).Restart, "1"},
		{"on disk, emptied", []string{"--appendonly", "yes"}, (*engines.RedisServer).Empty, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := engines.NewRedis(t, tc.config...)
			before := s.URL
			client := redisAt(t, s.URL)
			set(t, client, "k", "1")
			s.Stop()
			if err := client.Get(t.Context(), "k").Err(); err == nil {
				t.Error("a server that was stopped still answers")
			}
			tc.restart(s, t)
			if got := get(t, client, "k"); s.URL != before || got != tc.want {
				t.Errorf("restarted at %s, was at %s; got %q, want %q", s.URL, before, got, tc.want)
			}
		})
	}
}

func TestRedisConfig(t *testing.T) {
	s := engines.NewRedis(t, "--maxmemory-policy", "allkeys-lru", "--maxmemory", "20mb", "--requirepass", `a "b"`)
	options, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	options.Password = `a "b"`
	client := redis.NewClient(options)
	defer client.Close()
	for name, want := range map[string]string{"maxmemory-policy": "allkeys-lru", "maxmemory": fmt.Sprint(20 << 20), "save": ""} {
		if got, err := client.ConfigGet(t.Context(), name).Result(); err != nil || got[name] != want {
			t.Errorf("%s is %q, want %q; error %v", name, got[name], want, err)
		}
	}
}

func TestRedisCluster(t *testing.T) {
	thorough.Test(t, "starts three servers")
	c := engines.NewRedisCluster(t)
	addresses := strings.Split(strings.TrimPrefix(c.URL, "redis://"), ",")
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	defer client.Close()
	const keys = 1000
	for i := range keys {
		set(t, client, fmt.Sprint("k", i), fmt.Sprint(i))
	}
	total := int64(0)
	for i, s := range c.Nodes {
		if want := strings.TrimPrefix(s.URL, "redis://"); addresses[i] != want {
			t.Errorf("node %d is at %s, and in the URL at %s", i, want, addresses[i])
		}
		n, err := redisAt(t, s.URL).DBSize(t.Context()).Result()
		if err != nil || n < keys/6 {
			t.Errorf("%d keys in node %d (%v)", n, i, err)
		}
		total += n
	}
	if total != keys {
		t.Errorf("%d keys in all nodes, want %d", total, keys)
	}

	// A node that was lost comes back, with its slots.
	c.Nodes[1].Restart(t)
	within(t, time.Minute, func() error {
		for i := range keys {
			if err := client.Set(t.Context(), fmt.Sprint("k", i), "again", 0).Err(); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestRedisSentinel(t *testing.T) {
	thorough.Test(t, "starts three servers")
	s := engines.NewRedisSentinel(t)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	name := u.Query().Get("master_name")
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: u.Host})
	defer sentinel.Close()
	primary := func() string {
		address, err := sentinel.GetMasterAddrByName(t.Context(), name).Result()
		if err != nil {
			t.Fatal(err)
		}
		return "redis://" + strings.Join(address, ":")
	}
	if got := primary(); got != s.Primary.URL {
		t.Errorf("the Sentinel names %s, want %s", got, s.Primary.URL)
	}
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: name, SentinelAddrs: []string{u.Host}})
	defer client.Close()
	set(t, client, "k", "1")
	if n, err := client.Wait(t.Context(), 1, 10*time.Second).Result(); err != nil || n != 1 {
		t.Fatalf("%d replicas have the key (%v)", n, err)
	}

	s.Primary.Stop()
	within(t, time.Minute, func() error {
		if got := primary(); got != s.Replica.URL {
			return fmt.Errorf("the Sentinel names %s, want %s", got, s.Replica.URL)
		}
		return client.Set(t.Context(), "k2", "2", 0).Err()
	})
	if got := get(t, client, "k"); got != "1" {
		t.Errorf("the new primary has %q, want 1", got)
	}
	// The old one comes back as a replica of the new one.
	s.Primary.Restart(t)
	awaitValue(t, redisAt(t, s.Primary.URL), "k2", "2")
}
