package pglock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// ownConns is how many connections the store's own pool has: for renewals, and for
	// releases and the like that found the caller's pool busy. The listener takes its
	// connection out of this pool, which then makes another.
	ownConns = 2
	// busyPool is how long a release waits for the caller's pool.
	busyPool = 100 * time.Millisecond
	// longIdle is the idle time after which the store's own connections are tested
	// before use: a proxy or firewall may have dropped them.
	longIdle = time.Minute
	// pingTimeout is how long a connection that was idle may take to answer.
	pingTimeout = 2 * time.Second
)

// ownPool makes the store's own pool, which connects as the caller's does. It dials
// nothing yet.
func (s *Store) ownPool() (*pgxpool.Pool, error) {
	config := s.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = ownConns, 0, 0
	if config.PingTimeout == 0 {
		config.PingTimeout = pingTimeout
	}
	// Renewals come often enough, and a failed one is repeated soon: a ping before
	// each would double the round trips.
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > longIdle }
	// The caller's function is not for what the listener receives.
	config.ConnConfig.OnNotification = nil
	return pgxpool.NewWithConfig(context.Background(), config)
}

// A source of connections: fromOwn, fromEither, or Acquire of the caller's pool, for
// statements that may wait for the caller's own work.
type source func(ctx context.Context) (*pgxpool.Conn, error)

// fromOwn is for statements that must not wait.
func (s *Store) fromOwn(ctx context.Context) (*pgxpool.Conn, error) {
	own, err := s.own()
	if err != nil {
		return nil, err
	}
	return own.Acquire(ctx)
}

// fromEither is for statements that may wait a moment: usually the caller's pool has
// more connections than the store's.
func (s *Store) fromEither(ctx context.Context) (*pgxpool.Conn, error) {
	moment, cancel := context.WithTimeout(ctx, busyPool)
	conn, err := s.pool.Acquire(moment)
	cancel()
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return conn, err
	}
	return s.fromOwn(ctx)
}

// statement is one that the store sends.
type statement struct {
	sql string
	// often says that the statement is worth preparing on the server, if the pool
	// prepares statements: its configuration fits the proxies in between. Measured on
	// one connection, the server takes 80 µs longer for a statement that it has to
	// parse and plan. Both ways are one round trip, except for the first on a
	// connection.
	often bool
}

func (s *Store) mode(q statement) pgx.QueryExecMode {
	if q.often && !s.bare.Load() {
		return pgx.QueryExecModeCacheStatement
	}
	return pgx.QueryExecModeExec
}

// prepares reports whether statements of the pool are prepared on the server.
func prepares(config *pgxpool.Config) bool {
	c := config.ConnConfig
	return c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && c.StatementCacheCapacity > 0
}

// ask sends the statement and returns the rows of the answer, each a T by the order
// of its exported fields. It sends a statement again that certainly was not done, for
// a reason that passes at once. A statement whose connection was lost may have been
// done, so it is not sent again.
func ask[T any](ctx context.Context, s *Store, from source, q statement, args ...any) ([]T, error) {
	for try := 1; ; try++ {
		answer, err := askOnce[T](ctx, from, s.mode(q), q, args)
		if err == nil {
			return answer, nil
		}
		if ended := ctx.Err(); ended != nil {
			if !errors.Is(err, ended) {
				err = fmt.Errorf("%w: %w", ended, err)
			}
			return nil, s.wrap(err)
		}
		if hasCode(err, noSuchStatement, duplicateStatement) { // a proxy gave the session to others
			s.bare.Store(true)
		}
		if try >= tries(err) || pause(ctx, rand.N(time.Duration(min(try, 10))*time.Millisecond)) != nil {
			return nil, s.wrap(err)
		}
	}
}

func askOnce[T any](ctx context.Context, from source, mode pgx.QueryExecMode, q statement, args []any) ([]T, error) {
	conn, err := from(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	answer, err := query[T](ctx, conn, mode, q, args)
	if hasCode(err, readOnly) {
		_ = conn.Conn().Close(ctx) // another connection may find the primary
	}
	return answer, err
}

// querier is a connection, or a transaction on one.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func query[T any](ctx context.Context, on querier, mode pgx.QueryExecMode, q statement, args []any) ([]T, error) {
	rows, err := on.Query(ctx, q.sql, append([]any{mode}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// tries is how often a statement that fails with err is sent: once, unless it
// certainly was not done.
func tries(err error) int {
	switch {
	case hasCode(err, serializationFailure, deadlockDetected):
		return 500 // each time another transaction made progress, and there may be many
	case hasCode(err, readOnly):
		return 4 // it may have been the primary; each try has a new connection
	case hasCode(err, noSuchStatement, duplicateStatement), pgconn.SafeToRetry(err):
		return 20
	}
	return 1
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
