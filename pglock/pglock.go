// Package pglock keeps locks in PostgreSQL, for any number of programs on any
// number of machines.
//
// Importing it registers the URL schemes "postgres" and "postgresql":
//
//	postgres://user:password@db:5432/app?schema=holdfast
//
// The parameter schema names the schema that has the locks; the default is
// "holdfast". Everything else is as for pgxpool: several hosts with
// target_session_attrs=read-write, sslmode, pool_max_conns, the PG… variables of the
// environment. A parameter that pgxpool does not know goes to the server as a
// setting, and the server refuses a name that it does not know.
//
// # What decides
//
// The schema has one table, with a row for each resource, and functions. Each
// operation is one call of one function, in one round trip: it locks the row, then
// reads the server's clock, and decides on what the row has. The store keeps no
// state in a session, takes no advisory lock except to install the schema, and is
// right under any default_transaction_isolation: it retries what the server rolls
// back as a serialization failure or a deadlock.
//
// # What it promises
//
// Grants, renewals and releases are on disk before the store returns, and on the
// synchronous standbys if there are any, even if the role or the database has
// synchronous_commit off. The same is true for a repeat that finds what an earlier
// attempt was granted. With fsync = off nothing survives a crash. A standby never
// decides: the store refuses it.
//
// With asynchronous replication, a standby that takes over may lack the last
// grants, renewals and releases, and may grant a second time what is held. The
// second token is larger nevertheless, if the clock of the new primary is not behind
// that of the old one. If that matters, set synchronous_standby_names, or fence what
// the locks protect.
//
// The clock is the primary's: if it steps forwards, holds end too soon.
//
// # What it needs
//
// PostgreSQL 14 or newer (it is tested on 15 and 18) and a database whose encoding
// is UTF8. Init installs the schema if the role may create one. Otherwise, a user with
// that right must run the SQL that Schema returns, and then
//
//	GRANT USAGE ON SCHEMA holdfast TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.locks TO app;
//
// and, if PUBLIC may not execute functions by default, GRANT EXECUTE ON ALL FUNCTIONS
// IN SCHEMA holdfast TO app. The store refuses to work under row-level security that
// applies to the role: a client that does not see a hold would grant it again. For the
// same reason it refuses connections whose client_encoding is not UTF8: the server
// would convert names.
//
// A transaction that stays open for long, anywhere in the database, keeps the
// server from reusing the space of old versions of rows.
//
// # Connections
//
// A store of New sends its statements through the pool, by pgx: its limits, hooks and
// tracers apply. A store of a URL has a pool of its own, made of package pgconn alone.
// It understands the same parameters, and a program that does not call New does not link
// pgx with its types.
//
// Acquires and lists use the pool. The store has up to three connections beside it,
// made from the pool's configuration. Two serve renewals, and releases, sweeps and
// marks for wake-ups that got no connection of the pool within 100 ms; Init opens the
// first. So if all connections of the pool are in use, renewals are not delayed, and
// releases only for a moment. The third receives wake-ups (LISTEN), from the first
// waiter on.
//
// Behind PgBouncer in transaction mode everything works except wake-ups: the store
// detects it, and waiters poll. Statements are not prepared there, nor if the pool or
// the URL is configured so, which costs the server some 80 µs for each.
package pglock

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/wake"
)

// Traits describes every store on PostgreSQL. Notifies is false if wake-ups do not work or
// Options.Poll turns them off.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "postgres", Reach: driver.Network, ServerClock: true, Notifies: true,
		Durable: true, Queue: true, Shared: true, Sweeps: true, Fencing: driver.FencingStrict, Failover: driver.FailoverMayLose,
	}
}

// Options change what New does. The zero value is the default.
type Options struct {
	// Schema names the schema that has the locks, and nothing else: 1 to 48 lower-case letters, digits
	// and underscores, the first no digit. Default: DefaultSchema.
	Schema string
	// Poll makes waiters poll, without a connection for wake-ups.
	Poll bool
	// Logger gets a line that says whether there are wake-ups, and warnings when the
	// connection for them fails. Default: nothing is logged.
	Logger *slog.Logger
}

// DefaultSchema is the default of Options.Schema.
const DefaultSchema = "holdfast"

// Store is a driver.Store in a schema. Any number of clients may use it.
type Store struct {
	schema  string
	invalid error // of the options: every operation answers with it
	do      statements
	log     *slog.Logger

	pool  pool
	owned bool                 // Close closes the pool
	own   func() (pool, error) // the store's own, made when it is first needed
	bare  atomic.Bool          // statements are not prepared
	polls atomic.Bool          // there are no wake-ups

	stream  wake.Stream
	marked  atomic.Pointer[sync.Map] // until when rows are marked as watched, by resource
	closing sync.Once
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Watcher     = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// New keeps locks in the database that the pool connects to. It sends nothing; the
// Client that gets the store calls Init before its first request. Close does not
// close the pool.
func New(pool *pgxpool.Pool, opts *Options) *Store {
	p := pgxPool{pool}
	return newStore(p, p.prepares(), opts)
}

func newStore(p pool, prepares bool, opts *Options) *Store {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Store{schema: o.Schema, do: statementsOf(o.Schema), pool: p, log: o.Logger.With("schema", o.Schema)}
	s.invalid = validSchema(o.Schema)
	s.own = sync.OnceValues(p.own)
	s.polls.Store(o.Poll)
	s.bare.Store(!prepares)
	s.stream.Name, s.stream.Log, s.stream.Open = "the connection for notifications", s.log, s.openStream
	s.marked.Store(new(sync.Map))
	return s
}

// Traits implements driver.Store. Whether wake-ups work is known after the first wait.
func (s *Store) Traits() driver.Traits {
	t := Traits()
	t.Notifies = !s.polls.Load()
	return t
}

// Close implements driver.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.stream.Close()
		if own, err := s.own(); err == nil {
			own.close() // also if nothing was sent: then it stays closed
		}
		if s.owned {
			s.pool.close()
		}
	})
	return nil
}

// ready returns an error if nothing can be sent.
func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.invalid
}

// Format implements fmt.Formatter. It prints no more than what it is.
func (s *Store) Format(f fmt.State, _ rune) { fmt.Fprint(f, "pglock.Store") }
