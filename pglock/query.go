package pglock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

const (
	// ownConns is how many connections the store's own pool has: for renewals, and for
	// releases and the like that found the caller's pool busy. The listener takes its
	// connection out of this pool, which then makes another.
	ownConns = 2
	// busyPool is how long a release waits for the caller's pool.
	busyPool = 100 * time.Millisecond
	// longIdle is the idle time after which the store's own connections are tested
	// before use: a proxy or firewall may have dropped them. Renewals come often enough,
	// and a failed one is repeated soon: a ping before each would double the round trips.
	longIdle = time.Minute
	// pingTimeout is how long a connection that was idle may take to answer.
	pingTimeout = 2 * time.Second
	// goesOn is how long a statement goes on when its caller's context has ended: longer
	// than it waits for a row that others have locked.
	goesOn = time.Second
)

// A source of connections: fromOwn, fromEither, or acquire of the caller's pool, for
// statements that may wait for the caller's own work.
type source func(ctx context.Context) (conn, error)

// fromOwn is for statements that must not wait.
func (s *Store) fromOwn(ctx context.Context) (conn, error) {
	own, err := s.own()
	if err != nil {
		return nil, err
	}
	return own.acquire(ctx)
}

// fromEither is for statements that may wait a moment: usually the caller's pool has
// more connections than the store's.
func (s *Store) fromEither(ctx context.Context) (conn, error) {
	moment, cancel := context.WithTimeout(ctx, busyPool)
	conn, err := s.pool.acquire(moment)
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

func (s *Store) prepare(q statement) bool { return q.often && !s.bare.Load() }

// answer collects the rows of the answer to a statement.
type answer interface {
	// add adds a row, whose columns are in text format and valid until add returns.
	add(columns [][]byte) error
	drop()
}

// row is a pointer to a T that reads itself from the columns of a row, all of them.
type row[T any] interface {
	*T
	read(c *columns)
}

type rows[T any, R row[T]] []T

func (rs *rows[T, R]) add(values [][]byte) error {
	c := columns{values: values}
	var r T
	R(&r).read(&c)
	*rs = append(*rs, r)
	return c.end()
}

func (rs *rows[T, R]) drop() { *rs = nil }

// ask sends the statement, by exec, and returns the rows of the answer.
func ask[T any, R row[T]](ctx context.Context, s *Store, from source, q statement, args ...any) ([]T, error) {
	var into rows[T, R]
	if err := s.exec(ctx, from, q, args, &into); err != nil {
		return nil, err // and into may not be touched: the statement may go on
	}
	return into, nil
}

// exec sends a statement again that certainly was not done, for a reason that passes at
// once. A statement whose connection was lost may have been done, so it is not sent again.
func (s *Store) exec(ctx context.Context, from source, q statement, args []any, into answer) error {
	for try := 1; ; try++ {
		err := foreign.Error(ctx, execOnce(ctx, from, q.sql, s.prepare(q), args, into))
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return s.wrap(err)
		}
		into.drop()
		if hasCode(err, noSuchStatement, duplicateStatement) { // a proxy gave the session to others
			s.bare.Store(true)
		}
		if try >= tries(err) || backoff.Wait(ctx, rand.N(time.Duration(min(try, 10))*time.Millisecond)) != nil {
			return s.wrap(foreign.Error(ctx, err)) // ctx may have ended in the pause
		}
	}
}

// execOnce sends the statement, and waits for its answer until ctx ends. Then the statement
// goes on without its caller: to stop it, pgx closes the connection, or sends a cancel request
// that may come late and meet the next statement. A caller who has little time must not cost
// the others a connection.
func execOnce(ctx context.Context, from source, sql string, prepare bool, args []any, into answer) error {
	on, err := from(ctx)
	if err != nil {
		return err
	}
	going, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		err := on.query(late{going, ctx}, sql, prepare, args, into)
		if hasCode(err, readOnly) {
			_ = on.raw().Close(going) // another connection may find the primary
		}
		on.release()
		stop()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		time.AfterFunc(goesOn, stop)
		return ctx.Err()
	}
}

// late is the context of a statement that outlives that of its caller. What has not been sent
// when the caller leaves is not sent any more: a statement that was to be prepared first. pgx
// asks for Done before it sends.
type late struct {
	context.Context
	caller context.Context
}

// Done implements context.Context.
func (l late) Done() <-chan struct{} {
	if l.caller.Err() != nil {
		return l.caller.Done()
	}
	return l.Context.Done()
}

// Err implements context.Context.
func (l late) Err() error { return cmp.Or(l.Context.Err(), l.caller.Err()) }

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
