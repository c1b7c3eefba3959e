package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// servedStore is a store that servers use, and a Client that uses it directly. Both open it
// with the same URL.
type servedStore struct {
	name  string
	url   string
	store driver.Store
	locks *holdfast.Client
	database
}

// database is the database of a store.
type database interface {
	close() error // drops the database
	// copies makes n records of resources without holds.
	copies(ctx context.Context, n int) error
	// processorTime returns the processor time of the database server.
	processorTime(ctx context.Context) (time.Duration, error)
}

// servedStores open a store of each kind that servers are measured with.
var servedStores = []func(context.Context) *servedStore{openServedPostgres, openServedRedis}

func openServedPostgres(ctx context.Context) *servedStore { return servedPostgres(ctx, nil) }

// servedPostgres opens a store by a URL with these parameters.
func servedPostgres(ctx context.Context, parameters map[string]string) *servedStore {
	db := openPostgres(ctx)
	u := must(url.Parse(db.server))
	u.Path = "/" + db.name
	query := u.Query()
	for name, value := range parameters {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return openServed(ctx, "PostgreSQL", u.String(), db)
}

func openServedRedis(ctx context.Context) *servedStore {
	db := openRedis(ctx)
	return openServed(ctx, "Redis", db.url, db)
}

func openServed(ctx context.Context, name, storeURL string, db database) *servedStore {
	defer undo(db.close)
	store := must(driver.Open(ctx, storeURL))
	s := &servedStore{name: name, url: storeURL, store: store, locks: holdfast.New(store, nil), database: db}
	check(lockAndUnlock(ctx, s.locks, "first"))
	return s
}

func (s *servedStore) close() error {
	return errors.Join(s.locks.Close(), s.store.Close(), s.database.close())
}

// withServers calls do for each store with two servers, one of them with TLS.
func withServers(ctx context.Context, dir string, do func(*servedStore, *servedTwice) []result) []result {
	binary := buildCommand(ctx, dir)
	c := newCertificate(dir)
	var all []result
	for _, open := range servedStores {
		all = append(all, func() []result {
			store := open(ctx)
			defer finish(store.close) // a database can only be dropped without connections
			servers := serveTwice(ctx, binary, dir, store.url, c)
			defer finish(servers.stop)
			results := do(store, servers)
			noteDropped(ctx, results, servers.plain, servers.secure)
			return results
		}()...)
	}
	return all
}
