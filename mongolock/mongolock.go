// Package mongolock keeps locks in a MongoDB collection, for any number of
// programs on any number of machines.
//
// Importing it registers the URL schemes "mongodb" and "mongodb+srv":
//
//	mongodb://user:password@db1,db2,db3/app?replicaSet=rs0&collection=locks
//
// The documents have the layout of the Go package mongo-lock, with some more fields:
// programs that use that package and programs that use Holdfast exclude one another on
// one collection, as long as the clocks of the former are right. The age of their holds
// is unknown, because they write dates of their own clocks. See fields.go for the layout.
//
// The server decides, on its clock, in one statement on one document. Writes are
// acknowledged by the majority and journaled, whatever the settings of the collection
// are. On a sharded cluster the clock is that of the router that got the statement: keep
// the clocks of the routers in step, or give holds a takeover delay.
package mongolock

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/wake"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// Traits returns the traits of a store on a deployment with change streams: a replica set
// or a sharded cluster. On other deployments Notifies is false.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "mongodb", Reach: driver.Network, ServerClock: true, Notifies: true,
		Durable: true, Queue: true, Shared: true, Fencing: driver.FencingStrict, Failover: driver.FailoverKeeps,
		Sweeps: true,
	}
}

// Options are the optional settings of New. The zero value has the defaults.
type Options struct {
	// Poll makes waiters poll. Otherwise the first waiter opens a change stream, which
	// uses one of the client's connections.
	Poll bool
	// Logger gets a line that says whether there are wake-ups, and warnings when the
	// change stream fails. Default: nothing is logged.
	Logger *slog.Logger
	// OwnLimits makes the limit of each shared request alone decide, whatever the limits
	// of the holds are. The store then neither writes limits nor shows them: for shared
	// holds they are driver.LimitUnknown. A program with a wrong limit, or without one,
	// takes the permits of others. It is for mongolock/compat/mongo-lock, which promises
	// this to its callers.
	OwnLimits bool
	// ExactRenewals moves the end of a renewed hold to now + TTL even if that is earlier.
	// A renewal that arrives late, or a late copy of one, can then shorten a hold. It is
	// for mongolock/compat/mongo-lock, which promises this to its callers.
	ExactRenewals bool
}

// Store is a driver.Store in a collection. Any number of clients may use it.
type Store struct {
	coll   *mongokit.Collection
	log    *slog.Logger
	polls  atomic.Bool // waiters poll, without wake-ups
	stream *wake.Stream

	ownLimits, exactRenewals bool // see Options
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Queue       = (*Store)(nil)
	_ driver.Watcher     = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// New returns a store in the collection, which must be used for nothing else. It sends
// nothing; the holdfast.Client that gets the store calls Init before its first request.
// Close does not disconnect the collection's client.
func New(coll *mongo.Collection, opts *Options) *Store {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Store{coll: mongokit.New(coll), ownLimits: o.OwnLimits, exactRenewals: o.ExactRenewals}
	s.log = o.Logger.With("collection", s.coll.FullName())
	s.polls.Store(o.Poll)
	s.stream = newStream(s.coll, s.log)
	return s
}

// Traits implements driver.Store. Init determines whether there are wake-ups.
func (s *Store) Traits() driver.Traits {
	t := Traits()
	t.Notifies = !s.polls.Load()
	return t
}

// Watch implements driver.Watcher.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if s.polls.Load() {
		return nil, driver.ErrUnsupported
	}
	ch, err := s.stream.Watch(ctx, resource)
	return ch, s.coll.Wrap(err)
}

// Close implements driver.Store.
func (s *Store) Close() error {
	s.stream.Close()
	return s.coll.Close()
}

// Format implements fmt.Formatter. It prints only the name of the type.
func (s *Store) Format(f fmt.State, _ rune) { fmt.Fprint(f, "mongolock.Store") }
