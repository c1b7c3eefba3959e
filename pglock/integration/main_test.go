// Package pglock_test holds the tests of package pglock that need a server.
package pglock_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/pglock"
)

func TestMain(m *testing.M) { engines.Main(m) }

// database is that of a test, which has a schema for each place where locks are.
type database struct {
	url string
	// near is a pool that looks after what stores do.
	near *pgxpool.Pool
}

func newDatabase(t testing.TB) *database {
	t.Helper()
	return inDatabase(t, engines.PostgresDatabase(t))
}

func inDatabase(t testing.TB, url string) *database {
	t.Helper()
	d := &database{url: url}
	d.near = d.pool(t)
	return d
}

// pool is another one, as another process has it. It is closed with the test.
func (d *database) pool(t testing.TB, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// schema is the name of one that nobody has yet.
func schema() string { return "s_" + strings.TrimPrefix(engines.Name(), "holdfast_test_") }

// newStore is ready, in a schema of its own, and closed in the end.
func newStore(t testing.TB, d *database) *place {
	t.Helper()
	return openPlace(t, d, schema(), d.pool(t))
}

// place is a store, and where its locks are.
type place struct {
	*pglock.Store
	*database
	name string
}

func openPlace(t testing.TB, d *database, name string, pool *pgxpool.Pool) *place {
	t.Helper()
	p := &place{Store: pglock.New(pool, &pglock.Options{Schema: name}), database: d, name: name}
	t.Cleanup(func() { closeStore(t, p) })
	if err := p.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func closeStore(t testing.TB, s driver.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// exec runs SQL in which SCHEMA stands for that of the place.
func (p *place) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	run(t, p.near, strings.ReplaceAll(sql, "SCHEMA", p.name), args...)
}

func run(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// text is the row of a resource.
func (p *place) text(t testing.TB, resource string) (row string) {
	t.Helper()
	err := p.near.QueryRow(t.Context(), "SELECT l::text FROM "+pgx.Identifier{p.name, "locks"}.Sanitize()+" l WHERE resource = $1", resource).Scan(&row)
	if err != nil {
		t.Fatal(err)
	}
	return row
}
