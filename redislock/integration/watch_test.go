package redislock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redislock"
)

// watched subscribes, until the context ends.
func watched(ctx context.Context, t testing.TB, s *redislock.Store, resource string) <-chan struct{} {
	t.Helper()
	ch, err := s.Watch(ctx, resource)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func signalled(t testing.TB, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case _, open := <-ch:
		if !open {
			t.Errorf("%s: the channel is closed", what)
		}
	case <-time.After(time.Minute):
		t.Errorf("%s: no signal", what)
	}
}

func silent(t testing.TB, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
		t.Errorf("%s: a signal", what)
	default:
	}
}

// All watchers share one connection, subscribed only to the channels of resources that
// are still watched.
func TestOneSubscription(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	client := connect(t, options(t, server.URL))
	s := newStore(t, client, nil)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 50 {
		watched(ctx, t, s, fmt.Sprint("r", i/2))
	}
	kept := watched(t.Context(), t, s, "r0")
	channels := func() int { return len(client.PubSubChannels(t.Context(), "holdfast:*").Val()) }
	if n := channels(); n != 25 {
		t.Errorf("%d channels, want 25", n)
	}
	list := client.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").String()
	if n := countLines(list); n != 1 {
		t.Errorf("%d connections: %s", n, list)
	}
	cancel()
	ask.Until(t, "only one channel is left", func() bool { return channels() == 1 })
	again := watched(t.Context(), t, s, "r1")
	for i, ch := range []<-chan struct{}{kept, again} {
		ask.Released(t, s, ask.Granted(t, s, ask.Request(fmt.Sprint("r", i), "a")), 0)
		signalled(t, "released", ch)
	}
}

// A watcher that leaves does not wake others.
func TestLeavingWakesNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	ch := watched(t.Context(), t, s, "r")
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		watched(ctx, t, s, "r")
		cancel()
		watched(t.Context(), t, s, fmt.Sprint("another", i)) // then all earlier messages of the server have arrived
	}
	silent(t, "others left", ch)
}

// Watchers get a signal when a cut connection is back, and for each release from then on.
func TestSubscriptionIsCut(t *testing.T) {
	t.Parallel()
	p, n := newPlace(t), proxy.New(t)
	near := newStore(t, p.client, &p.Options)
	far := newStore(t, through(t, n), &p.Options)
	ch := watched(t.Context(), t, far, "r")
	n.Refuse()
	ref := ask.Granted(t, near, ask.Request("r", "a"))
	ask.Released(t, near, ref, 0)
	silent(t, "cut off", ch)
	n.Accept()
	signalled(t, "connected again", ch)
	ask.Released(t, near, ask.Granted(t, near, ask.Request("r", "a")), 0)
	signalled(t, "released", ch)
}

// In a Cluster each channel is on the node of its key, and moves with it.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, cluster *engines.RedisCluster) *redislock.Store{
		"client": func(t *testing.T, cluster *engines.RedisCluster) *redislock.Store {
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses(cluster.URL)})
			t.Cleanup(func() { closeAll(t, client) })
			return newStore(t, client, nil)
		},
		"URL": func(t *testing.T, cluster *engines.RedisCluster) *redislock.Store {
			s := place{Options: redislock.Options{Prefix: redislock.DefaultPrefix}}.byURL(t, cluster.URL).(*redislock.Store)
			t.Cleanup(func() { closeAll(t, s) })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := engines.NewRedisCluster(t)
			slotMoves(t, cluster, open(t, cluster))
		})
	}
}

func slotMoves(t *testing.T, cluster *engines.RedisCluster, s *redislock.Store) {
	const many = 12
	held := make(map[string]driver.HoldRef)
	signals := make(map[string]<-chan struct{})
	for i := range many {
		resource := fmt.Sprint("r", i)
		held[resource] = ask.Granted(t, s, ask.Request(resource, "a"))
		signals[resource] = watched(t.Context(), t, s, resource)
	}
	stays := func() {
		t.Helper()
		_ = ask.Refused(t, s, ask.Request("r0", "b"))
		if rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: held["r0"], TTL: 2 * time.Hour}}); err != nil || rs[0].Err != nil {
			t.Errorf("renewal: %v %v", rs, err)
		}
	}
	// The slot of r0 goes to another node, with its key.
	moveSlot(t, cluster, "holdfast:r0", stays)
	signalled(t, "moved", signals["r0"])
	stays()
	for resource, ref := range held {
		drain(signals[resource])
		if !ask.Released(t, s, ref, 0) {
			t.Errorf("%s was not found", resource)
		}
		signalled(t, resource+" released", signals[resource])
		if next := ask.Granted(t, s, ask.Request(resource, "b")); next.Token <= ref.Token {
			t.Errorf("token %d follows token %d", next.Token, ref.Token)
		}
	}
}

// drain takes a pending signal.
func drain(ch <-chan struct{}) {
	select {
	case <-ch:
	default:
	}
}
