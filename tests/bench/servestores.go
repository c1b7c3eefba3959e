package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// servedStore is a store that servers stand in front of, and the Client that reaches it
// without them: both have opened it by the same URL.
type servedStore struct {
	name  string
	url   string
	store driver.Store
	locks *holdfast.Client
	database
}

// database is where a store keeps its records.
type database interface {
	close() error // drops them
	// copies makes so many records of resources that nobody holds.
	copies(ctx context.Context, n int) error
	// processorTime is for how long the server has kept processors busy.
	processorTime(ctx context.Context) (time.Duration, error)
}

func openServedPostgres(ctx context.Context) (*servedStore, error) { return servedPostgres(ctx, nil) }

// servedPostgres opens a store by a URL with these parameters.
func servedPostgres(ctx context.Context, parameters map[string]string) (*servedStore, error) {
	db, err := openPostgres(ctx)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(db.server)
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	u.Path = "/" + db.name
	query := u.Query()
	for name, value := range parameters {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return openServed(ctx, "PostgreSQL", u.String(), db)
}

func openServedRedis(ctx context.Context) (*servedStore, error) {
	db, err := openRedis(ctx)
	if err != nil {
		return nil, err
	}
	return openServed(ctx, "Redis", db.url, db)
}

func openServed(ctx context.Context, name, storeURL string, db database) (*servedStore, error) {
	store, err := driver.Open(ctx, storeURL)
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	s := &servedStore{name: name, url: storeURL, store: store, locks: holdfast.New(store, nil), database: db}
	if err := lockAndUnlock(ctx, s.locks, "first"); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *servedStore) close() error {
	return errors.Join(s.locks.Close(), s.store.Close(), s.database.close())
}

// withServers calls do with each store, and two servers in front of it, one of them with TLS.
func withServers(ctx context.Context, dir string, do func(*servedStore, *servedTwice) ([]result, error)) ([]result, error) {
	binary, err := buildCommand(ctx, dir)
	if err != nil {
		return nil, err
	}
	c, err := newCertificate(dir)
	if err != nil {
		return nil, err
	}
	var all []result
	for _, open := range []func(context.Context) (*servedStore, error){openServedPostgres, openServedRedis} {
		store, err := open(ctx)
		if err != nil {
			return nil, err
		}
		servers, err := serveTwice(ctx, binary, dir, store.url, c)
		if err != nil {
			return nil, errors.Join(err, store.close())
		}
		results, err := do(store, servers)
		if err == nil {
			err = noteDropped(ctx, results, servers)
		}
		// The database can be dropped when nobody is connected any more.
		if err = errors.Join(err, servers.stop(), store.close()); err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}
