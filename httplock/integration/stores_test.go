package httplock_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/redislock"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// behind is a store behind servers.
type behind struct {
	// open opens a handle on the data, which its server closes.
	open func(t testing.TB) driver.Store
	// clock is the store's clock, if it can be moved.
	clock *drivertest.Clock
	// uncounted is drivertest.Harness.Uncounted.
	uncounted bool
}

// stores creates new data, in each kind of store that a server can use.
var stores = map[string]func(t testing.TB) *behind{
	"memory":   inMemory,
	"sqlite":   onSQLite,
	"redis":    onRedis,
	"postgres": onPostgres,
}

func inMemory(testing.TB) *behind {
	c := drivertest.NewClock(time.Millisecond) // the resolution of the API
	store := memlock.New(&memlock.Options{Now: c.Now})
	return &behind{clock: c, open: func(testing.TB) driver.Store { return store }}
}

func onSQLite(t testing.TB) *behind {
	path := filepath.Join(t.TempDir(), "locks.db")
	return &behind{open: func(t testing.TB) driver.Store {
		t.Helper()
		s, err := sqlitelock.Open(t.Context(), path, &sqlitelock.Options{BusyTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
}

func onRedis(t testing.TB) *behind {
	o, err := redis.ParseURL(engines.Redis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	prefix := engines.RedisPrefix(t)
	return &behind{uncounted: true, open: func(t testing.TB) driver.Store {
		client := redis.NewClient(o)
		t.Cleanup(func() { _ = client.Close() })
		return redislock.New(client, &redislock.Options{Prefix: prefix})
	}}
}

// onPostgres uses a schema of the database.
func onPostgres(t testing.TB) *behind { return inDatabase(engines.PostgresDatabase(t)) }

func inDatabase(url string) *behind {
	schema := "s_" + strings.TrimPrefix(engines.Name(), "holdfast_test_")
	return &behind{open: func(t testing.TB) driver.Store {
		t.Helper()
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		config.MaxConns = 4
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pglock.New(pool, &pglock.Options{Schema: schema})
	}}
}
