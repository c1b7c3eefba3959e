package engines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var redisKind = &kind{name: "redis", start: func(ctx context.Context) (*process, error) {
	folder, err := nodeFolder(ctx)
	if err != nil {
		return nil, err
	}
	return newRedis(ctx, RedisUsual, folder, 0, nil)
}}

// redisConfig is the name of the configuration in a server's folder. The server rewrites it
// when a Sentinel makes it a replica or a primary.
const redisConfig = "redis.conf"

// newRedis starts a server without data in a folder of its own.
func newRedis(ctx context.Context, release RedisRelease, folder string, port int, config []string) (*process, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	words := append([]string{"--bind", "127.0.0.1", "--save", "", "--dir", folder}, config...)
	if err := os.WriteFile(filepath.Join(folder, redisConfig), redisLines(words), 0o666); err != nil {
		return nil, err
	}
	return startRedis(ctx, release, folder, port)
}

// redisLines converts arguments of redis-server to a configuration: a word with two dashes
// begins a line.
func redisLines(words []string) []byte {
	var lines strings.Builder
	for _, word := range words {
		if directive, ok := strings.CutPrefix(word, "--"); ok {
			lines.WriteString("\n" + directive)
		} else {
			lines.WriteString(" " + strconv.Quote(word))
		}
	}
	lines.WriteString("\n")
	return []byte(lines.String())
}

// startRedis starts a server, or a Sentinel, with the files in a folder.
func startRedis(ctx context.Context, release RedisRelease, folder string, port int, arguments ...string) (*process, error) {
	program, env, err := release.program(ctx)
	if err != nil {
		return nil, err
	}
	return native{
		name: "redis-server", folder: folder, env: env, crash: syscall.SIGKILL, ready: redisReady,
		url: func(port int) string { return "redis://" + loopback(port) },
		command: func(port int) ([]string, error) {
			return clocked(ctx, folder, append([]string{program, filepath.Join(folder, redisConfig), "--port", strconv.Itoa(port)}, arguments...))
		},
	}.start(ctx, port)
}

// redisFact returns the value of a line in the reply to INFO.
func redisFact(info, name string) string {
	m := regexp.MustCompile(`(?m)^` + name + `:(.*?)\r?$`).FindStringSubmatch(info)
	if m == nil {
		return ""
	}
	return m[1]
}

func redisReady(ctx context.Context, pid, port int) error {
	// Otherwise the client would log that nothing listens yet.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", loopback(port))
	if err != nil {
		return err
	}
	conn.Close()
	client := redisClient(port)
	defer client.Close()
	info, err := client.Info(ctx).Result()
	if err != nil {
		if redis.HasErrorPrefix(err, "NOAUTH") { // it answers that it requires a password
			return nil
		}
		return err
	}
	if id := redisFact(info, "process_id"); id != strconv.Itoa(pid) {
		return fmt.Errorf("at its port is process %s", id)
	}
	if redisFact(info, "loading") == "1" {
		return errors.New("it is still loading")
	}
	return nil
}

// redisClient returns a client that neither retries nor waits long.
func redisClient(port int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: loopback(port), MaxRetries: -1, DialerRetries: 1, DialTimeout: 10 * time.Second, PoolSize: 1})
}

// Redis returns a server that all tests of this process share, or the server that
// HOLDFAST_TEST_REDIS_URL names. It is never a cluster or a Sentinel. Its data are in memory
// only.
func Redis(t testing.TB) Engine {
	t.Helper()
	return redisKind.shared(t)
}

// StartRedis is Redis for programs other than tests. If this machine lacks something, the error
// says how to get it.
func StartRedis(ctx context.Context) (Engine, error) { return redisKind.get(ctx) }

// RedisPrefix returns a new prefix for keys on Redis(t). The keys with the prefix are deleted
// when the test ends.
func RedisPrefix(t testing.TB) string {
	t.Helper()
	options, err := redis.ParseURL(Redis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	prefix := Name() + ":"
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		client := redis.NewClient(options)
		defer client.Close()
		keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
				t.Errorf("deleting key %q: %v", keys.Val(), err)
				return
			}
		}
		if err := keys.Err(); err != nil {
			t.Errorf("deleting keys of %s: %v", prefix, err)
		}
	})
	return prefix
}

// RedisServer is a server for one test, which may stop it.
type RedisServer struct {
	own
	release RedisRelease
	config  []string
	clock   *Clock // nil: the machine's
}

// NewRedis starts a server, even if HOLDFAST_TEST_REDIS_URL names one. It ends with the test.
// config are arguments of redis-server: "--appendonly", "yes". Without any, its data are in
// memory only.
func NewRedis(t testing.TB, config ...string) *RedisServer {
	t.Helper()
	return NewRedisRelease(t, RedisUsual, config...)
}

// NewRedisRelease is NewRedis for a server of another version.
func NewRedisRelease(t testing.TB, release RedisRelease, config ...string) *RedisServer {
	t.Helper()
	s := newRedisServer(t, release, config)
	s.begin(t, s.create, 0)
	return s
}

// NewRedisClock is NewRedis for a server with a clock of its own, by which its keys expire.
func NewRedisClock(t testing.TB, config ...string) (*RedisServer, *Clock) {
	t.Helper()
	s := newRedisServer(t, RedisUsual, config)
	s.clock = newClock(t, s.folder)
	s.begin(t, s.create, 0)
	return s, s.clock
}

func newRedisServer(t testing.TB, release RedisRelease, config []string) *RedisServer {
	t.Helper()
	folder, err := nodeFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &RedisServer{own: own{kind: redisKind, folder: folder}, release: release, config: config}
	s.start = func(ctx context.Context, port int) (*process, error) { return startRedis(ctx, release, folder, port) }
	s.endWithTest(t)
	return s
}

// create starts the server without data.
func (s *RedisServer) create(ctx context.Context, port int) (*process, error) {
	return newRedis(ctx, s.release, s.folder, port, s.config)
}

// Empty is Restart without the data.
func (s *RedisServer) Empty(t testing.TB) {
	t.Helper()
	s.empty(t, s.folder, func(ctx context.Context, port int) (*process, error) {
		if s.clock != nil {
			newClock(t, s.folder).Set(s.clock.Now())
		}
		return s.create(ctx, port)
	})
}
