package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/redislock"
)

// Whatever is left after a restart, tokens rise, and remaining holds still block.
func TestRestart(t *testing.T) {
	for name, c := range map[string]struct {
		config  []string
		restart func(*engines.RedisServer, testing.TB)
		kept    bool
	}{
		"with its data":    {[]string{"--appendonly", "yes", "--appendfsync", "always"}, (*engines.RedisServer).Restart, true},
		"without its data": {nil, (*engines.RedisServer).Empty, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := engines.NewRedis(t, c.config...)
			s := newStore(t, connect(t, options(t, server.URL)), nil)
			if got := s.Traits().Durable; got != c.kept {
				t.Errorf("durable: %v", got)
			}
			first, idle := ask.Granted(t, s, ask.Request("r", "a")), ask.Granted(t, s, ask.Request("idle", "a"))
			ask.Released(t, s, idle, 0)
			c.restart(server, t)
			if c.kept {
				_ = ask.Refused(t, s, ask.Request("r", "b"))
				if !ask.Released(t, s, first, 0) {
					t.Error("the hold was not found")
				}
			} else {
				ask.Lost(t, s, first)
			}
			for _, before := range []driver.HoldRef{first, idle} {
				if next := ask.Granted(t, s, ask.Request(before.Resource, "b")); next.Token <= before.Token {
					t.Errorf("token %d of %q follows token %d", next.Token, next.Resource, before.Token)
				}
			}
		})
	}
}

// A server whose memory is full grants no more, but renews and releases holds.
func TestMemoryIsFull(t *testing.T) { onEachRelease(t, memoryIsFull) }

func memoryIsFull(t *testing.T, release engines.RedisRelease) {
	server := engines.NewRedisRelease(t, release)
	client := connect(t, options(t, server.URL))
	s := newStore(t, client, nil)
	ref, other := ask.Granted(t, s, ask.Request("r", "a")), ask.Granted(t, s, ask.Request("other", "a"))
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Acquire(t.Context(), ask.Request("new", "a"))
	faults.MustBeUnknown(t, err) // expiring keys make room
	if !strings.Contains(err.Error(), "raise maxmemory") {
		t.Errorf("acquire: %v does not say what to do", err)
	}
	held := ask.Refused(t, s, waiting(ask.Request("r", "b")))
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 3 * time.Hour}})
	if err != nil || rs[0].Err != nil || rs[0].Left <= held.RetryAfter {
		t.Errorf("renewal: %v %v", rs, err)
	}
	if !ask.Released(t, s, other, time.Minute) || !ask.Released(t, s, ref, 0) {
		t.Error("a hold was not found")
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if next := ask.Granted(t, s, ask.Request("r", "b")); next.Token <= ref.Token {
		t.Errorf("token %d follows token %d", next.Token, ref.Token)
	}
	_ = ask.Refused(t, s, ask.Request("other", "b"))
}

// Grants stay valid, whatever is refused in the same run of a script for lack of memory.
func TestMemoryIsFullForSome(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	client := connect(t, options(t, server.URL))
	s := newStore(t, client, nil)
	held := ask.Request("held", "a")
	ask.Granted(t, s, held)
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		var all sync.WaitGroup
		for i := range 40 {
			q := held
			if i%4 > 0 {
				q = ask.Request(fmt.Sprint("new", i), "a")
			}
			all.Go(func() {
				// After a rewritten record, there may be memory for others.
				if _, err := s.Acquire(t.Context(), q); err != nil && q.Resource == "held" {
					t.Errorf("a repeat: %v", err)
				}
			})
		}
		all.Wait()
	}
}

// Init refuses a server that could evict locks, but not one that is only full.
func TestEviction(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	client := connect(t, options(t, server.URL))
	for _, c := range []struct {
		policy, memory string
		refused        bool
	}{
		{"noeviction", "100mb", false},
		{"allkeys-lru", "100mb", true},
		{"volatile-ttl", "100mb", true},
		{"allkeys-random", "0", false},
	} {
		for name, value := range map[string]string{"maxmemory": c.memory, "maxmemory-policy": c.policy} {
			if err := client.ConfigSet(t.Context(), name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		s := redislock.New(client, nil)
		err := s.Init(t.Context())
		if refused := errors.Is(err, driver.ErrUnusable) && strings.Contains(err.Error(), c.policy); refused != c.refused || !refused && err != nil {
			t.Errorf("%s with maxmemory %s: %v", c.policy, c.memory, err)
		}
		closeAll(t, s)
	}
}

// If a server has forgotten the scripts, the store sends them again.
func TestScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	client := connect(t, options(t, server.URL))
	s := newStore(t, client, nil)
	for name, prepare := range faults.Operations {
		p := prepare(t, s, name)
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if err := p.Do(t.Context(), s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p.Check()
	}
}

// While another script runs for too long, the outcome is unknown. After that is killed,
// everything works again.
func TestBusyServer(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t, "--busy-reply-threshold", "1")
	client := connect(t, options(t, server.URL))
	s := newStore(t, client, nil)
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	endless := make(chan error, 1)
	ctx := t.Context()
	go func() { endless <- client.Eval(ctx, "while true do end", nil).Err() }()
	ask.Until(t, "the server is busy", func() bool {
		return redis.HasErrorPrefix(client.Ping(ctx).Err(), "BUSY")
	})
	_, err := s.Acquire(ctx, ask.Request("r", "b"))
	faults.MustBeUnknown(t, err)
	rs, err := s.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	faults.MustBeUnknown(t, errors.Join(err, rs[0].Err))
	if err := client.ScriptKill(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-endless; err == nil {
		t.Error("the endless script ended by itself")
	}
	if !ask.Released(t, s, ref, 0) {
		t.Error("the hold was not found")
	}
}

// The Client finds the new primary, and tokens rise.
func TestFailOver(t *testing.T) {
	t.Parallel()
	sentinel := engines.NewRedisSentinel(t)
	ctx := t.Context()
	c, err := holdfast.Open(ctx, sentinel.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, c) })
	first, err := c.Lock(ctx, "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	sentinel.Primary.Stop()
	var second *holdfast.Hold
	ask.Until(t, "the replica grants", func() bool {
		second, err = c.TryLock(ctx, "r", nil)
		return err == nil
	})
	if second.Token() <= first.Token() {
		t.Errorf("token %d follows token %d", second.Token(), first.Token())
	}
	if err := second.Unlock(ctx); err != nil {
		t.Error(err)
	}
}

// The rights that docs/redis.md lists, and the additional ones for a Cluster.
var (
	rights        = strings.Fields("+evalsha +eval +get +set +del +time +scan +info +publish +subscribe +unsubscribe +ping ~holdfast:* &holdfast:*")
	clusterRights = strings.Fields("+spublish +ssubscribe +sunsubscribe +cluster")
)

// The listed rights are enough in a Cluster, too.
func TestRightsInCluster(t *testing.T) {
	t.Parallel()
	cluster := engines.NewRedisCluster(t)
	args := []any{"ACL", "SETUSER", "ada", "on", ">secret"}
	for _, rule := range slices.Concat(rights, clusterRights) {
		args = append(args, rule)
	}
	for _, node := range cluster.Nodes {
		if err := connect(t, options(t, node.URL)).Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := driver.Open(t.Context(), strings.Replace(cluster.URL, "://", "://ada:secret@", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, s) })
	for name, prepare := range faults.Operations {
		p := prepare(t, s, name)
		if err := p.Do(t.Context(), s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p.Check()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ref := ask.Granted(t, s, ask.Request("told", "a"))
	ch, err := s.(driver.Watcher).Watch(ctx, "told")
	if err != nil {
		t.Fatal(err)
	}
	ask.Released(t, s, ref, 0)
	signalled(t, "released", ch)
}

// Users get what their rights allow, and errors that name the missing rights.
func TestRights(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	admin := connect(t, options(t, server.URL))
	users := 0
	as := func(rules ...string) *redis.Client {
		t.Helper()
		users++
		name := fmt.Sprint("user", users)
		args := []any{"ACL", "SETUSER", name, "on", ">secret-" + name}
		for _, rule := range rules {
			args = append(args, rule)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		o := options(t, server.URL)
		o.Username, o.Password = name, "secret-"+name
		return connect(t, o)
	}
	enough := rights
	s := newStore(t, as(enough...), nil)
	for name, prepare := range faults.Operations {
		p := prepare(t, s, name)
		if err := p.Do(t.Context(), s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p.Check()
	}
	without := func(right string) (rules []string) {
		for _, r := range enough {
			if r != right {
				rules = append(rules, r)
			}
		}
		return rules
	}
	for _, right := range []string{"+evalsha", "+get", "+set", "+time", "~holdfast:*"} {
		client := as(without(right)...)
		s := newStore(t, client, nil)
		_, err := s.Acquire(t.Context(), ask.Request("new "+right, "a"))
		if !errors.Is(err, driver.ErrUnusable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("without %s: %v; want ErrUnusable", right, err)
		}
	}
	for _, right := range []string{"+publish", "+subscribe", "+unsubscribe", "&holdfast:*"} {
		s := newStore(t, as(without(right)...), nil)
		if s.Traits().Notifies {
			t.Errorf("without %s: the store notifies", right)
		}
		if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("without %s: %v; want ErrUnsupported", right, err)
		}
		ask.Released(t, s, ask.Granted(t, s, ask.Request("r "+right, "a")), 0)
	}
	newStore(t, as(without("+info")...), nil)
	wrong := options(t, server.URL)
	wrong.Username, wrong.Password = "user1", "secret-wrong"
	bad := redislock.New(connect(t, wrong), nil)
	if err := bad.Init(t.Context()); !errors.Is(err, driver.ErrUnusable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("with a wrong password: %v; want ErrUnusable", err)
	}
	closeAll(t, bad)
}

// The errors for unusable servers say what to do.
func TestRefused(t *testing.T) {
	t.Parallel()
	server, cluster := engines.NewRedis(t), engines.NewRedisCluster(t)
	for name, c := range map[string]struct {
		client func() redis.UniversalClient
		opts   redislock.Options
		is     error
		says   string
	}{
		"a node of a Cluster": {func() redis.UniversalClient { return redis.NewClient(options(t, cluster.Nodes[0].URL)) },
			redislock.Options{}, driver.ErrUnusable, "cluster=true"},
		"no Cluster": {func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses(server.URL)})
		}, redislock.Options{}, driver.ErrUnusable, "cluster=true"},
		"a Ring": {func() redis.UniversalClient {
			return redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addresses(server.URL)[0]}})
		}, redislock.Options{}, driver.ErrUnusable, "Ring"},
		"too short a retention": {func() redis.UniversalClient { return redis.NewClient(options(t, server.URL)) },
			redislock.Options{KeyRetention: time.Second}, driver.ErrInvalid, "retention"},
		"negative replicas": {func() redis.UniversalClient { return redis.NewClient(options(t, server.URL)) },
			redislock.Options{Replicas: -1}, driver.ErrInvalid, "replicas"},
		"replicas that have as long as a reply": {func() redis.UniversalClient { return redis.NewClient(options(t, server.URL)) },
			redislock.Options{Replicas: 1, ReplicaTimeout: time.Minute}, driver.ErrInvalid, "longer read time-out"},
		"the same in a Cluster": {func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses(cluster.URL), ReadTimeout: time.Second})
		}, redislock.Options{Replicas: 1}, driver.ErrInvalid, "longer read time-out"},
	} {
		t.Run(name, func(t *testing.T) {
			client := c.client()
			s := redislock.New(client, &c.opts)
			if err := s.Init(t.Context()); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want %v that says %q", err, c.is, c.says)
			}
			closeAll(t, s, client)
		})
	}
}

// A call to a frozen server returns when its context ends, and calls that have been given
// up do not delay others once the server continues.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	o := options(t, server.URL)
	o.ReadTimeout, o.MaxRetries = time.Minute, -1
	s := newStore(t, connect(t, o), nil)
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	server.Freeze(t)
	for i := range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := s.Acquire(ctx, ask.Request(fmt.Sprint("r", i), "b"))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire: %v", err)
		}
		cancel()
	}
	server.Thaw(t)
	if !ask.Released(t, s, ref, 0) {
		t.Error("the hold was not found")
	}
}

// Close takes a bounded time even if the server stopped answering while a connection was
// being made. go-redis alone would wait until the server continues.
func TestCloseWhileServerIsFrozen(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	server.Freeze(t)
	store, err := driver.Open(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := store.(driver.Initializer).Init(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("init: %v", err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = store.Close() // the error may be that a connection is left
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("close waits for the server")
	}
	server.Thaw(t)
}
