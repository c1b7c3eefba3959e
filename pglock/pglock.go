// Package pglock keeps locks in PostgreSQL, for any number of programs on any
// number of machines.
//
// Importing it registers the URL schemes "postgres" and "postgresql":
//
//	postgres://user:password@db:5432/app?schema=holdfast
//
// schema is where the locks are, "holdfast" if it is not said. All else is as for
// pgx: several hosts with target_session_attrs=read-write, sslmode, pool_max_conns,
// the PG… variables of the environment. What pgx does not know it tells the server
// to set, which refuses a name that it does not know either.
//
// # What decides
//
// The schema has one table, a row for each resource, and functions. Each
// operation is one call of one function, in one round trip: it locks the row, and
// only then reads the server's clock and decides on what the row has. It keeps no
// state in a session, takes no advisory lock but to install the schema, and is
// right under any default_transaction_isolation; what the server gives up as a
// serialization failure or a deadlock is asked again.
//
// # What it promises
//
// Grants are on disk before they are answered, and on the synchronous standbys if
// there are any, also where the role or the database has synchronous_commit off.
// That goes for a repeat that finds what an earlier try was granted, too. What fsync = off takes away, nothing gives back. A
// standby never decides: it is refused.
//
// With asynchronous replication a standby that takes over may lack the last grants,
// renewals and releases: what is held may then be granted a second time. Its token
// is the larger one all the same, if the clock of the new primary is not behind
// that of the old. Where that matters set synchronous_standby_names, or fence what
// the locks protect.
//
// The clock is the primary's: if it steps forwards, holds end too soon.
//
// # What it needs
//
// PostgreSQL 14 or newer (it is tested on 15 and 18) and a database whose encoding
// is UTF8. Init installs the schema if the role may create one; otherwise somebody
// who may runs the SQL that Schema returns, and then
//
//	GRANT USAGE ON SCHEMA holdfast TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.locks TO app;
//
// and, where functions are not everybody's by default, GRANT EXECUTE ON ALL
// FUNCTIONS IN SCHEMA holdfast TO app. Row-level security that applies to the role
// is refused: whoever does not see all holds would grant them again.
//
// A transaction that stays open for long, anywhere in the database, keeps the
// server from reusing the space of old versions of rows.
//
// # Connections
//
// Acquires use the pool. Renewals have connections of their own, at most two, made
// from the pool's configuration, the first by Init: a pool whose connections are
// all taken delays no renewal, and a release, which tries the pool first, by a
// moment. Once somebody waits, there is one more, for wake-ups (LISTEN).
//
// Behind PgBouncer in transaction mode all works but wake-ups: the store finds out,
// and waiters ask from time to time. There, and where the pool is configured so,
// statements are not prepared, which costs the server some 80 µs for each.
package pglock

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
)

// Traits of every store on PostgreSQL. Where wake-ups turn out not to work, or are
// not wanted, Notifies is false.
func Traits() driver.Traits {
	return driver.Traits{
		Name: "postgres", Reach: driver.Network, ServerClock: true, Notifies: true,
		Durable: true, Shared: true, Sweeps: true, Fencing: driver.FencingStrict, Failover: driver.FailoverMayLose,
	}
}

// Options change what New does. The zero value is the default.
type Options struct {
	// Schema has the locks, and nothing else: 1 to 48 lower-case letters, digits
	// and underscores, the first no digit. Default: DefaultSchema.
	Schema string
	// Poll makes the store do without a connection for wake-ups. Waiters then ask
	// from time to time.
	Poll bool
	// Logger gets a line that says whether there are wake-ups, and warnings of a
	// connection for them that fails. Default: nothing is logged.
	Logger *slog.Logger
}

// DefaultSchema has the locks if nothing else is said.
const DefaultSchema = "holdfast"

// Store is a driver.Store in a schema. Any number of clients may use it.
type Store struct {
	schema  string
	invalid error // of the options: every operation answers with it
	do      calls
	log     *slog.Logger

	pool     *pgxpool.Pool
	owned    bool // Close closes the pool
	own      ownPool
	bare     atomic.Bool // statements are not prepared
	polls    atomic.Bool // there are no wake-ups
	listener *listener
	closing  sync.Once
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
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{schema: o.Schema, do: callsIn(o.Schema), pool: pool, log: o.Logger.With("schema", o.Schema)}
	s.invalid = validSchema(o.Schema)
	s.polls.Store(o.Poll)
	s.bare.Store(!prepares(pool.Config()))
	s.own.pool = pool
	s.listener = newListener(s)
	return s
}

// Traits implements driver.Store. Whether wake-ups work is known once somebody has
// waited.
func (s *Store) Traits() driver.Traits {
	t := Traits()
	t.Notifies = !s.polls.Load()
	return t
}

// Close implements driver.Store.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.listener.stream.Close()
		s.own.close()
		if s.owned {
			s.pool.Close()
		}
	})
	return nil
}

// ready says that there is something to send, and where to.
func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.invalid
}
