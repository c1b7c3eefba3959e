package pglock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// ownConns is how many connections a store has beside the pool, but for the
	// one that listens: one for renewals, and one for releases that found the pool
	// busy.
	ownConns = 2
	// busyPool is how long a release waits for the pool.
	busyPool = 100 * time.Millisecond
	// longIdle is after how long the store's own connections are tried before they
	// are used: what lies between may have forgotten them.
	longIdle = time.Minute
	// pingTimeout is how long a connection that was idle may take to answer.
	pingTimeout = 2 * time.Second
)

var errClosed = errors.New("the store is closed")

// ownPool is made when it is first needed.
type ownPool struct {
	pool *pgxpool.Pool // whose configuration it has

	mu     sync.Mutex
	own    *pgxpool.Pool
	closed bool
}

func (o *ownPool) get() (*pgxpool.Pool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, errClosed
	}
	if o.own == nil {
		config := o.pool.Config()
		config.MaxConns, config.MinConns, config.MinIdleConns = ownConns, 0, 0
		if config.PingTimeout == 0 {
			config.PingTimeout = pingTimeout
		}
		// Renewals come often enough, and a repeat is due soon if one fails: to try each
		// time whether the server is there would double the round trips.
		config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > longIdle }
		// What the listener hears is not for a function of the caller's.
		config.ConnConfig.OnNotification = nil
		own, err := pgxpool.NewWithConfig(context.Background(), config) // dials nothing yet
		if err != nil {
			return nil, err
		}
		o.own = own
	}
	return o.own, nil
}

func (o *ownPool) close() {
	o.mu.Lock()
	own := o.own
	o.closed = true
	o.mu.Unlock()
	if own != nil {
		own.Close()
	}
}

func (o *ownPool) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	own, err := o.get()
	if err != nil {
		return nil, err
	}
	return own.Acquire(ctx)
}

// A source of connections.
type source func(ctx context.Context) (*pgxpool.Conn, error)

// fromPool is for what may wait for the caller's own work.
func (s *Store) fromPool(ctx context.Context) (*pgxpool.Conn, error) { return s.pool.Acquire(ctx) }

// fromOwn is for what may not.
func (s *Store) fromOwn(ctx context.Context) (*pgxpool.Conn, error) { return s.own.acquire(ctx) }

// fromEither is for what may wait a moment: as a rule the pool has more
// connections than the store.
func (s *Store) fromEither(ctx context.Context) (*pgxpool.Conn, error) {
	moment, cancel := context.WithTimeout(ctx, busyPool)
	conn, err := s.pool.Acquire(moment)
	cancel()
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return conn, err
	}
	return s.fromOwn(ctx)
}

// prepares says that statements are to be prepared on the server. They are where
// the pool does so, for it is configured by somebody who knows what is in between;
// measured on one connection, what is not prepared takes the server 80 µs longer
// each time, for it is parsed and planned anew. Both are one round trip; to prepare
// costs another for the first use of a connection. Cached descriptions would cost
// that, too, and save a part of the time only.
func prepares(config *pgxpool.Config) bool {
	c := config.ConnConfig
	return c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && c.StatementCacheCapacity > 0
}

func bare() pgx.QueryExecMode { return pgx.QueryExecModeExec }

func (s *Store) mode() pgx.QueryExecMode {
	if s.bare.Load() {
		return bare()
	}
	return pgx.QueryExecModeCacheStatement
}

// maxTries bounds how often a statement is sent that the server did not decide.
const maxTries = 20

// crowdTries is the same for what the server rolled back because of others: each
// time one of them got on, and many come and go.
const crowdTries = 500

// readOnlyTries is the same for servers that are read-only: each is asked over a
// new connection.
const readOnlyTries = 4

// ask sends the statement, and gives each row of the answer to row. A statement
// that certainly was not done, for a reason that passes at once, is sent again;
// one whose connection is lost was perhaps done, and is not.
func (s *Store) ask(ctx context.Context, from source, statement string, args []any, row func(pgx.Rows) error) error {
	return s.askIn(ctx, s.mode, from, statement, args, row)
}

// askBare is ask for what is asked seldom: nothing is prepared for it.
func (s *Store) askBare(ctx context.Context, from source, statement string, args []any, row func(pgx.Rows) error) error {
	return s.askIn(ctx, bare, from, statement, args, row)
}

func (s *Store) askIn(ctx context.Context, mode func() pgx.QueryExecMode, from source, statement string, args []any, row func(pgx.Rows) error) error {
	for try := 1; ; try++ {
		err := askOnce(ctx, mode(), from, statement, args, row)
		if err == nil {
			return nil
		}
		if ended := ctx.Err(); ended != nil {
			if !errors.Is(err, ended) {
				err = fmt.Errorf("%w: %w", ended, err)
			}
			return s.wrap(err)
		}
		// A server that is read-only did nothing. It may have been the primary, and its
		// connection is closed: another one may find the server that is.
		again := undecided(err) || hasCode(err, readOnly) && try < readOnlyTries
		if unprepared(err) {
			s.bare.Store(true)
			again = true
		}
		most := maxTries
		if hasCode(err, serializationFailure, deadlockDetected) {
			most = crowdTries
		}
		if !again || try >= most || pause(ctx, rand.N(time.Duration(min(try, 10))*time.Millisecond)) != nil {
			return s.wrap(err)
		}
	}
}

func askOnce(ctx context.Context, mode pgx.QueryExecMode, from source, statement string, args []any, row func(pgx.Rows) error) error {
	conn, err := from(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	err = query(ctx, conn, mode, statement, args, row)
	if hasCode(err, readOnly) {
		_ = conn.Conn().Close(ctx)
	}
	return err
}

// asker is a connection, or a transaction on one.
type asker interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func query(ctx context.Context, on asker, mode pgx.QueryExecMode, statement string, args []any, row func(pgx.Rows) error) error {
	rows, err := on.Query(ctx, statement, append([]any{mode}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// undecided: the server rolled the statement back because of others, or nothing
// was sent.
func undecided(err error) bool {
	return hasCode(err, serializationFailure, deadlockDetected) || pgconn.SafeToRetry(err)
}

// unprepared: a proxy gave the session that had prepared the statement to others.
func unprepared(err error) bool { return hasCode(err, noSuchStatement, duplicateStatement) }

// lostConnection: there was a connection, and no answer of the server.
func lostConnection(err error) bool {
	var answered *pgconn.PgError
	return !isRefused(err) && !errors.As(err, &answered)
}
