package pglock

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgxPool is a pool of the caller's, or the store's own beside it. Statements go through
// pgx, not past it: the caller's tracers see them, and pgx knows what it has prepared on
// a connection and what the caller's hooks have deallocated there.
type pgxPool struct{ *pgxpool.Pool }

func (p pgxPool) acquire(ctx context.Context) (conn, error) {
	c, err := p.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return pgxConn{c.Conn(), c}, nil
}

func (p pgxPool) own() (pool, error) {
	config := p.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = ownConns, 0, 0
	if config.PingTimeout == 0 {
		config.PingTimeout = pingTimeout
	}
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > longIdle }
	// The caller's function is not for what the listener receives.
	config.ConnConfig.OnNotification = hear
	own, err := pgxpool.NewWithConfig(context.Background(), config)
	return pgxPool{own}, err
}

func (p pgxPool) close() { p.Close() }

// prepares reports whether statements of the pool are prepared on the server.
func (p pgxPool) prepares() bool {
	c := p.Config().ConnConfig
	return c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && c.StatementCacheCapacity > 0
}

type pgxConn struct {
	on     *pgx.Conn
	pooled *pgxpool.Conn
}

func (c pgxConn) raw() *pgconn.PgConn { return c.on.PgConn() }
func (c pgxConn) release()            { c.pooled.Release() }
func (c pgxConn) hijack()             { c.pooled.Hijack() }

func (c pgxConn) query(ctx context.Context, sql string, prepare bool, args []any, into answer) error {
	return pgxQuery(ctx, c.on, sql, prepare, args, into)
}

// querier is a connection of pgx, or a transaction on one.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// asText are the format of all columns. Without it pgx asks for the binary one of the
// types it knows.
var asText = pgx.QueryResultFormats{pgx.TextFormatCode}

func pgxQuery(ctx context.Context, on querier, sql string, prepare bool, args []any, into answer) error {
	mode := pgx.QueryExecModeExec
	if prepare {
		mode = pgx.QueryExecModeCacheStatement
	}
	rows, err := on.Query(ctx, sql, append([]any{mode, asText}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := into.add(rows.RawValues()); err != nil {
			return err
		}
	}
	return rows.Err()
}
