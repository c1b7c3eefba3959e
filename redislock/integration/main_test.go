// Package redislock_test holds the tests of package redislock that need a server.
package redislock_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/redislock"
)

func TestMain(m *testing.M) {
	// After Close, go-redis goes on connecting to missing servers for some seconds.
	const goRedis = "github.com/redis/go-redis/v9"
	engines.Main(m,
		goleak.IgnoreAnyFunction(goRedis+"/internal/pool.(*ConnPool).queuedNewConn.func2"),
		goleak.IgnoreAnyFunction(goRedis+".(*sentinelFailover).MasterAddr.func1"))
}

// options returns options for a client of the server.
func options(t testing.TB, url string) *redis.Options {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// connect makes a client that is closed with the test.
func connect(t testing.TB, o *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(o)
	t.Cleanup(func() { closeAll(t, client) })
	return client
}

// closeAll closes clients and stores in their order.
func closeAll(t testing.TB, all ...interface{ Close() error }) {
	t.Helper()
	for _, one := range all {
		if err := one.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// newStore returns a store after Init, which is closed at the end of the test.
func newStore(t testing.TB, client redis.UniversalClient, o *redislock.Options) *redislock.Store {
	t.Helper()
	s := redislock.New(client, o)
	t.Cleanup(func() { closeAll(t, s) })
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// place says where the keys of a test are.
type place struct {
	redislock.Options
	client redis.UniversalClient
}

func newPlace(t testing.TB) place {
	t.Helper()
	return place{redislock.Options{Prefix: engines.RedisPrefix(t)}, connect(t, options(t, engines.Redis(t).URL))}
}

// byURL opens a store by the URL of a server, like programs without a client.
func (p place) byURL(t testing.TB, server string) driver.Store {
	t.Helper()
	u, err := driver.ParseURL(server)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = url.Values{"prefix": {p.Prefix}}.Encode()
	s, err := driver.Open(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p place) open() driver.Store { return redislock.New(p.client, &p.Options) }

// damage makes the record of a resource unreadable.
func (p place) damage(t *testing.T, resource string) {
	t.Helper()
	if err := p.client.Set(t.Context(), p.Prefix+resource, "nonsense", 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// addresses returns the addresses in a URL.
func addresses(url string) []string {
	_, list, _ := strings.Cut(url, "://")
	return strings.Split(list, ",")
}

func countLines(text string) int { return strings.Count(strings.TrimSpace(text), "\n") + 1 }
