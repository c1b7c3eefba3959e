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

// postgresDB is a database of a measurement's own, on the server that the tests use,
// with a Client that locks there.
type postgresDB struct {
	server string // its URL
	name   string
	pool   *pgxpool.Pool
	store  *pglock.Store
	locks  *holdfast.Client
	sent   *statementCounter
}

// openPostgres makes the database, and has locked once: the schema is there.
func openPostgres(ctx context.Context) *postgresDB {
	engine := must(engines.StartPostgres(ctx))
	db := &postgresDB{server: engine.URL, name: engines.Name(), sent: &statementCounter{}}
	config := must(pgxpool.ParseConfig(engine.URL))
	config.ConnConfig.Database = db.name
	config.ConnConfig.Tracer = db.sent
	db.pool = must(pgxpool.NewWithConfig(ctx, config)) // connects when it is used
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

// statement is what pgx was asked to send.
type statement struct {
	sql  string
	args []any
}

// statementCounter counts statements, and keeps those about holds while it is told to.
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
