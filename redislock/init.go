package redislock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// Init implements driver.Initializer. It checks each server once, and refuses a server
// that is too old and one that may evict locks.
func (s *Store) Init(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	if _, ring := s.client.(*redis.Ring); ring {
		return unusable("a Ring moves keys to other servers when one is away, and a lock would be granted twice", nil)
	}
	servers, err := s.servers(ctx)
	if err != nil {
		return err
	}
	durable := true
	for _, server := range servers {
		info, err := within(ctx, func() (string, error) { return server.Info(ctx).Result() })
		if redis.HasErrorPrefix(err, "NOPERM") {
			s.o.Logger.Warn("holdfast: the user has no right to INFO: it is not known whether the server may evict locks (maxmemory-policy)", "error", err)
			durable = false
			continue
		}
		if err != nil {
			return s.wrap(err)
		}
		facts := parseInfo(info)
		if err := s.checkServer(facts); err != nil {
			return err
		}
		durable = durable && facts["aof_enabled"] == "1" && syncsWrites(ctx, server)
	}
	s.durable.Store(durable)
	return s.chooseWakeUps(ctx)
}

// check returns an error if the options are invalid by themselves or for this client.
func (s *Store) check() error {
	var read time.Duration
	switch c := s.client.(type) {
	case *redis.Client:
		read = c.Options().ReadTimeout
	case *redis.ClusterClient:
		read = c.Options().ReadTimeout
	}
	if s.o.Replicas > 0 && read > 0 && s.o.ReplicaTimeout >= read {
		return fmt.Errorf("%w: replicas have %v, but the client waits for a reply for %v only: set a shorter time-out for replicas, or a longer read time-out",
			driver.ErrInvalid, s.o.ReplicaTimeout, read)
	}
	return s.o.check()
}

func (o Options) check() error {
	switch {
	case o.KeyRetention < minRetention:
		return fmt.Errorf("%w: key retention %v is less than %v", driver.ErrInvalid, o.KeyRetention, minRetention)
	case o.KeyRetention > driver.MaxTTL:
		return fmt.Errorf("%w: key retention %v is more than 100 years", driver.ErrInvalid, o.KeyRetention)
	case o.Replicas < 0:
		return fmt.Errorf("%w: %d replicas to wait for", driver.ErrInvalid, o.Replicas)
	case o.ReplicaTimeout < time.Millisecond: // WAIT takes 0 ms for no time-out
		return fmt.Errorf("%w: a time-out of %v for replicas is below 1ms", driver.ErrInvalid, o.ReplicaTimeout)
	}
	return nil
}

// servers returns all servers with keys.
func (s *Store) servers(ctx context.Context) ([]redis.UniversalClient, error) {
	if s.cluster == nil {
		return []redis.UniversalClient{s.client}, nil
	}
	all, err := within(ctx, func() (all []redis.UniversalClient, err error) {
		var mu sync.Mutex
		err = s.cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, master)
			return nil
		})
		return all, err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("the Cluster has no master")
	}
	return all, s.wrap(err)
}

// parseInfo parses the reply to INFO.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// checkServer returns an error if INFO shows that the server must not be used for locks.
func (s *Store) checkServer(info map[string]string) error {
	var major, minor int
	_, _ = fmt.Sscanf(info["redis_version"], "%d.%d", &major, &minor) // 0.0 is too old
	switch policy := info["maxmemory_policy"]; {
	case major < 6 || major == 6 && minor < 2:
		return unusable(fmt.Sprintf("the server is version %q: 6.2 or newer is needed", info["redis_version"]), nil)
	case info["role"] == "slave": // one name may stand for several servers, too
		return s.wrap(fmt.Errorf("the server is a replica, which decides nothing: name the primary, or use Sentinel; a fail-over may be under way"))
	case info["cluster_enabled"] == "1" && s.cluster == nil:
		return s.wrap(fmt.Errorf("MOVED"))
	case policy != "" && policy != "noeviction" && info["maxmemory"] != "0":
		return unusable(fmt.Sprintf("the server may evict locks that are held (maxmemory-policy %s): set maxmemory-policy to noeviction", policy), nil)
	case policy == "":
		s.o.Logger.Warn("holdfast: INFO does not contain the maxmemory-policy: unless it is noeviction, the server may evict locks that are held")
	}
	if s.cluster != nil && major < 7 {
		s.global.Store(true)
	}
	return nil
}

// syncsWrites reports whether the server answers a write only after it is on disk. It
// returns false if the user may not read that setting.
func syncsWrites(ctx context.Context, server redis.UniversalClient) bool {
	config, err := within(ctx, func() (map[string]string, error) { return server.ConfigGet(ctx, "appendfsync").Result() })
	return err == nil && config["appendfsync"] == "always"
}

// chooseWakeUps determines whether the user may publish and subscribe. A release does not
// report that it could not publish, and waiters get no signals without subscriptions.
func (s *Store) chooseWakeUps(ctx context.Context) error {
	if s.polls.Load() {
		s.o.Logger.Info("holdfast: waiters poll, as configured")
		return nil
	}
	channel := s.o.Prefix
	server, err := within(ctx, func() (redis.UniversalClient, error) { return s.node(ctx, channel) })
	if err != nil {
		return s.wrap(err)
	}
	_, err = within(ctx, func() (any, error) { return server.Do(ctx, s.publish(), channel, "").Result() })
	if err == nil {
		pubsub := server.Subscribe(ctx)
		defer pubsub.Close()
		_, err = within(ctx, func() (any, error) { return nil, s.probe(ctx, pubsub) })
	}
	if redis.HasErrorPrefix(err, "NOPERM") {
		s.polls.Store(true)
		s.o.Logger.Warn("holdfast: waiters poll, because the user has no right to publish and subscribe on channels with the prefix of the keys", "error", err)
		return nil
	}
	return s.wrap(err)
}
