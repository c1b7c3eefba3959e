// Package redislock keeps locks in Redis or Valkey, for any number of programs on
// any number of machines: on a single server, under Sentinel or in a Cluster.
//
// Importing it registers the URL schemes "redis" and "rediss" (TLS):
//
//	redis://user:password@host:6379/0
//	redis://sentinel1:26379,sentinel2:26379/0?master_name=main
//	redis://node1:6379,node2:6379,node3:6379      a Cluster
//
// Redis must be 6.2 or newer; every Valkey will do. A program that has a go-redis
// client hands it to New instead.
//
// The server decides everything, on its clock, in one Lua script that performs an
// operation on one key. A resource is the key "holdfast:" and its name. A key lives as
// long as a hold may block and for the retention after that, or a little longer, so
// nothing accumulates and nothing has to be swept.
//
// Simultaneous requests of goroutines travel in one pipeline, and so do the renewals
// of many holds. Outside a Cluster one run of the script serves up to a hundred keys,
// each by itself. It is sent once: the retries of the go-redis client do not apply.
//
// The script consists of these files, in their order:
//
//   - fast.lua describes the arguments and the keys, and decides most acquires and
//     releases: the acquire of a free resource, and the release of its only hold as it was
//     granted. The other files decide the rest.
//   - record.lua reads and writes the record in a key.
//   - acquire.lua acquires: it decides whether the holds in a record leave room.
//   - holds.lua renews, releases, sweeps, and reads for List.
//   - run.lua calls these for each key, has changed records written, and replies.
//
// In Go, operations.go and list.go ask for an operation and understand its reply,
// script.go writes its arguments and record.go reads records in replies. pipeline.go
// batches requests, direct.go sends the request of a caller that is alone, and exec.go
// runs the script for a batch. watch.go keeps subscriptions.
//
// # What Redis cannot promise
//
// Replication is asynchronous. When a replica takes over, what it had not yet got
// is lost, and a hold with it: two can then hold one lock, each with a token, and
// the tokens rise as far as the clocks of the servers agree. Options.Replicas makes
// the wait for replicas part of each grant and renewal, which makes that rarer and
// not impossible, for a fail-over may choose another replica. Fencing tokens are
// what protects data then. A replica answers nothing; one that takes writes
// (replica-read-only no) is found out by Init alone.
//
// A server that restarts has what its persistence kept: nothing without any, and
// all but the last second with appendfsync everysec. Who held goes on until its
// deadline, and others can be granted the lock at once. Tokens rise all the same,
// because they are never behind the clock. Use appendfsync always where that
// matters.
//
// A server that evicts keys (maxmemory-policy other than noeviction) can evict a
// lock that is held. Init refuses it.
package redislock

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// Traits of every store on a server whose pub/sub can be used; on others Notifies is
// false. On servers that write everything to disk before they answer, Durable is
// true.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "redis", Reach: driver.Network, ServerClock: true, Notifies: true,
		Shared: true, Fencing: driver.FencingStrict, Failover: driver.FailoverMayLose,
	}
}

// What Options mean by default.
const (
	DefaultPrefix         = "holdfast:"
	DefaultRetention      = 24 * time.Hour
	DefaultReplicaTimeout = time.Second

	minRetention = time.Minute
)

// Options change what New does. The zero value is the default.
type Options struct {
	// Prefix is what all keys begin with. Nothing else may use such keys. In a
	// Cluster a part in braces puts all of them into one slot. Default: DefaultPrefix.
	Prefix string
	// Retention is how long a key stays after its last hold, so that the next token
	// is larger whatever the server's clock did meanwhile. It stays for a sixteenth
	// of that longer at most, or two minutes. At least a minute.
	// Default: DefaultRetention.
	Retention time.Duration
	// Replicas is how many replicas must have a grant or a renewal before it counts.
	// With fewer of them in time the outcome is unknown, and the Client asks again;
	// what is refused or lost is so without them. Default: none is waited for.
	Replicas int
	// ReplicaTimeout is how long replicas have: less than the read time-out of the
	// client. Default: DefaultReplicaTimeout.
	ReplicaTimeout time.Duration
	// Poll makes the store do without pub/sub. Waiters then ask from time to time.
	Poll bool
	// Logger gets warnings about what Init could not find out, and of subscriptions
	// that fail. Default: nothing is logged.
	Logger *slog.Logger
}

// filled has the defaults where o says nothing.
func (o Options) filled() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.ReplicaTimeout == 0 {
		o.ReplicaTimeout = DefaultReplicaTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Store is a driver.Store in Redis. Any number of clients may use it.
type Store struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // client, if it is one
	o       Options
	log     *slog.Logger
	polls   atomic.Bool // there are no wake-ups
	global  atomic.Bool // a Cluster without sharded pub/sub
	durable atomic.Bool // what was answered is on disk
	apart   atomic.Bool // a run of the script is for the keys of one slot

	pipelines *pipelines
	direct    *direct // or nil
	watcher   *watcher

	owned   io.Closer // closed by Close, or nil
	closing sync.Once
	err     error
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Watcher     = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// New keeps locks where the client leads to: a *redis.Client, with or without
// Sentinel, or a *redis.ClusterClient. It sends nothing; the Client that gets the
// store calls Init before its first request. Close does not close the client.
func New(client redis.UniversalClient, opts *Options) *Store {
	var o Options
	if opts != nil {
		o = *opts
	}
	o = o.filled()
	s := &Store{client: client, o: o, log: o.Logger}
	s.cluster, _ = client.(*redis.ClusterClient)
	s.apart.Store(s.cluster != nil)
	s.polls.Store(o.Poll)
	s.pipelines = newPipelines(s)
	s.watcher = newWatcher(s)
	return s
}

// Traits implements driver.Store. Whether there are wake-ups, and whether holds
// outlive a restart, is known after Init.
func (s *Store) Traits() driver.Traits {
	t := Traits()
	t.Notifies, t.Durable = !s.polls.Load(), s.durable.Load()
	return t
}

// key is where a resource is, and the channel that its releases are told on.
func (s *Store) key(resource string) string { return s.o.Prefix + resource }

// node returns the client of the server that has a key.
func (s *Store) node(ctx context.Context, key string) (redis.UniversalClient, error) {
	if s.cluster == nil {
		return s.client, nil
	}
	return s.cluster.MasterForKey(ctx, key)
}

// Watch implements driver.Watcher.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.polls.Load() {
		return nil, driver.ErrUnsupported
	}
	ch, err := s.watcher.watch(ctx, resource)
	return ch, s.wrap(err)
}

// Close implements driver.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.watcher.stream.Close()
		s.pipelines.close()
		if s.direct != nil {
			s.err = s.direct.client.Close()
		}
		if s.owned != nil {
			s.err = errors.Join(s.err, s.owned.Close())
		}
		s.err = s.wrap(s.err)
	})
	return s.err
}
