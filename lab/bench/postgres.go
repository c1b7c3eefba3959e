package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/pglock"
)

// postgresDB is a database for one measurement, on the server that the tests use, with a Client
// that locks in it.
type postgresDB struct {
	server string // the server's URL
	name   string
	pool   *pgxpool.Pool
	store  *pglock.Store
	locks  *holdfast.Client
	sent   *statementCounter
}

// openPostgres creates the database, and locks once, so that the schema exists.
func openPostgres(ctx context.Context) *postgresDB {
	engine := must(engines.StartPostgres(ctx))
	db := &postgresDB{server: engine.URL, name: engines.Name(), sent: &statementCounter{}}
	config := must(pgxpool.ParseConfig(engine.URL))
	config.ConnConfig.Database = db.name
	config.ConnConfig.Tracer = db.sent
	db.pool = must(pgxpool.NewWithConfig(ctx, config)) // connects on first use
	db.store = pglock.New(db.pool, nil)
	db.locks = holdfast.New(db.store, nil)
	check(db.admin(ctx, "CREATE DATABASE"))
	defer undo(db.close)
	check(lockAndUnlock(ctx, db.locks, "first"))
	return db
}

// admin runs a statement about the database.
func (db *postgresDB) admin(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, db.server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement+" "+pgx.Identifier{db.name}.Sanitize())
	return errors.Join(err, conn.Close(ctx))
}

// close drops the database.
func (db *postgresDB) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := errors.Join(db.locks.Close(), db.store.Close())
	db.pool.Close()
	return errors.Join(err, db.admin(ctx, "DROP DATABASE"))
}

// statement is a statement sent with pgx.
type statement struct {
	sql  string
	args []any
}

// statementCounter counts statements, and keeps statements about holds while it records.
type statementCounter struct {
	n    atomic.Int64
	keep atomic.Bool
	mu   sync.Mutex
	kept []statement
}

// TraceQueryStart implements pgx.QueryTracer.
func (c *statementCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	if c.keep.Load() && strings.HasPrefix(q.SQL, "SELECT * FROM") {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.kept = append(c.kept, statement{q.SQL, slices.Clone(q.Args)})
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (c *statementCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
