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
// client gives it to New and needs no URL.
//
// The server decides everything, on its clock, in one Lua script. Each operation is on
// one key: "holdfast:" and the name of the resource. The key lives as long as a hold may
// block and then for Options.KeyRetention, or a little longer. So keys do not accumulate,
// and no sweep is needed.
//
// Simultaneous requests of goroutines share a pipeline, as do the renewals of many holds.
// Outside a Cluster one run of the script handles up to a hundred keys, each
// independently. A request is sent once: the retries of the go-redis client do not apply.
//
// The script consists of these files, in this order:
//
//   - fast.lua decides most acquires and releases: the acquire of a free resource, and the
//     release of its only hold, if that has not changed since its grant.
//   - record.lua describes requests and keys, and reads and writes records.
//   - queue.lua keeps the places of waiters.
//   - acquire.lua decides all other acquires, including all refusals.
//   - holds.lua decides renewals, all other releases and sweeps, and reads for List.
//   - run.lua calls these for each key, writes the changed records, and replies.
//
// In Go, operations.go and list.go request operations and decode their replies. script.go
// writes requests, and record.go decodes the records in replies. pipeline.go batches
// requests, direct.go sends the request of a single caller, and exec.go runs the script
// for a batch. watch.go keeps the subscriptions.
//
// # What Redis cannot promise
//
// Replication is asynchronous. When a replica takes over, it has not received the latest
// writes, and the holds in them are lost: two clients can then hold one lock, each with a
// token, and the tokens rise as far as the clocks of the servers agree. Options.Replicas
// makes each grant and renewal wait for replicas. That makes such a loss rarer but not
// impossible, because a fail-over may choose another replica. Only fencing tokens protect
// data then. Requests to a replica fail, but only Init detects a replica that accepts
// writes (replica-read-only no).
//
// A server that restarts has only what its persistence kept: nothing without persistence,
// and all but the last second with appendfsync everysec. Holders are told a moment after
// their connection is back, see Store.WatchLoss, but another client can be granted the
// lock before. Tokens still rise, because they are never behind the clock. If such a loss
// matters, use appendfsync always.
//
// A server that evicts keys (maxmemory-policy other than noeviction) can evict the key of
// a lock that is held. Init refuses such a server.
package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// Traits returns the traits of a store on a server with usable pub/sub. On other servers
// Notifies is false. On servers that write everything to disk before they answer, Durable
// is true.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "redis", Reach: driver.Network, ServerClock: true, Notifies: true,
		Shared: true, Queue: true, Fencing: driver.FencingStrict, Failover: driver.FailoverMayLose,
	}
}

// The defaults of Options.
const (
	DefaultPrefix         = "holdfast:"
	DefaultKeyRetention   = 24 * time.Hour
	DefaultReplicaTimeout = time.Second

	minRetention = time.Minute
)

// Options are the optional settings of New. The zero value has the defaults.
type Options struct {
	// Prefix begins all keys. Nothing else may use such keys. In a Cluster, a part in
	// braces puts all keys into one slot. Default: DefaultPrefix.
	Prefix string
	// KeyRetention is how long a key stays after its last hold, at least a minute. While
	// it stays, the next token is larger, even if the server's clock was set back. The
	// key may stay longer, by up to a sixteenth of KeyRetention or two minutes, whichever
	// is more. The server deletes the key by itself; holdfast.Options.Retention has no
	// effect on it. Default: DefaultKeyRetention.
	KeyRetention time.Duration
	// Replicas is how many replicas must confirm each grant and each renewal. If fewer
	// confirm in time, the outcome is unknown and the Client retries. Refusals and
	// losses do not wait for replicas. Default: 0.
	Replicas int
	// ReplicaTimeout is how long to wait for replicas: at least 1 ms, and less than the
	// read time-out of the client. Default: DefaultReplicaTimeout.
	ReplicaTimeout time.Duration
	// Poll makes waiters poll instead of using pub/sub.
	Poll bool
	// Logger gets warnings about what Init could not check, and about subscriptions that
	// fail. Default: nothing is logged.
	Logger *slog.Logger
}

// withDefaults returns o with the defaults in place of zero values.
func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.KeyRetention == 0 {
		o.KeyRetention = DefaultKeyRetention
	}
	if o.ReplicaTimeout == 0 {
		o.ReplicaTimeout = DefaultReplicaTimeout
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Store is a driver.Store in Redis. Any number of clients may use it.
type Store struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // the same as client if that is a ClusterClient, else nil
	o       Options
	polls   atomic.Bool // waiters poll, without wake-ups
	global  atomic.Bool // a Cluster without sharded pub/sub
	durable atomic.Bool // the servers write to disk before they answer
	perKey  atomic.Bool // each key needs a run of its own

	pipelines *pipelines
	direct    *direct // nil if not used
	watcher   *watcher

	owned   []io.Closer // closed by Close
	closing sync.Once
	err     error
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Queue       = (*Store)(nil)
	_ driver.Watcher     = (*Store)(nil)
	_ driver.LossWatcher = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// New returns a store that uses the client: a *redis.Client, with or without Sentinel, or
// a *redis.ClusterClient. It sends nothing; the holdfast.Client that gets the store calls
// Init before its first request. Close does not close the client.
func New(client redis.UniversalClient, opts *Options) *Store {
	var o Options
	if opts != nil {
		o = *opts
	}
	o = o.withDefaults()
	s := &Store{client: client, o: o}
	s.cluster, _ = client.(*redis.ClusterClient)
	s.perKey.Store(s.cluster != nil)
	s.polls.Store(o.Poll)
	s.pipelines = newPipelines(s)
	s.watcher = newWatcher(s)
	return s
}

// Traits implements driver.Store. Init determines whether there are wake-ups, and whether
// holds survive a restart.
func (s *Store) Traits() driver.Traits {
	t := Traits()
	t.Notifies, t.Durable = !s.polls.Load(), s.durable.Load()
	return t
}

// key returns the key of a resource. The channel for its releases has the same name.
func (s *Store) key(resource string) string { return s.o.Prefix + resource }

// node returns the client of the server that has a key.
func (s *Store) node(ctx context.Context, key string) (redis.UniversalClient, error) {
	if s.cluster == nil {
		return s.client, nil
	}
	server, err := s.cluster.MasterForKey(ctx, key)
	return server, foreign.Error(ctx, err)
}

// Watch implements driver.Watcher.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if s.polls.Load() {
		return nil, driver.ErrUnsupported
	}
	ch, err := s.watcher.watch(ctx, resource)
	return ch, s.wrap(err)
}

// WatchLoss implements driver.LossWatcher. It keeps the connection for subscriptions
// open, even without any, and signals after each reconnect: the server may be another
// one, or may have restarted without its data. In a Cluster it notices only failures of
// nodes to which it has a connection.
func (s *Store) WatchLoss(ctx context.Context) (<-chan struct{}, error) {
	if s.polls.Load() {
		return nil, driver.ErrUnsupported
	}
	ch, err := s.watcher.stream.Watch(ctx, noResource)
	return ch, s.wrap(err)
}

// noResource is not the name of any resource. Its subscribers get a signal only when the
// stream is open again.
const noResource = ""

// Close implements driver.Store. It takes 2 s at most.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.watcher.stream.Close()
		s.pipelines.close()
		s.err = s.wrap(s.closeClients())
	})
	return s.err
}

// maxClosing is how long Close waits for go-redis to close its connections.
const maxClosing = 2 * time.Second

// closeClients closes the clients that this package has made. Before go-redis closes a
// connection, it checks its health. If a reply on it is outstanding, such as that to
// HELLO, the check waits for the reply and removes its deadline, so it waits forever if
// the server hangs. Such connections are closed later, once the server goes on or is
// gone.
func (s *Store) closeClients() error {
	closed := make(chan error, 1)
	go func() {
		var err error
		for _, c := range s.owned {
			err = errors.Join(err, c.Close())
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		return err
	case <-time.After(maxClosing):
		return errors.New("the server does not answer: connections are closed once it does")
	}
}

// Format implements fmt.Formatter. It prints only the name of the type.
func (s *Store) Format(f fmt.State, _ rune) { fmt.Fprint(f, "redislock.Store") }
