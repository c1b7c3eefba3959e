package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
)

const (
	searchScripts    = 3 // of eslock
	searchOperations = 10_000
	searchSingles    = 1000 // of them, one after another
)

// measureSearchScripts counts what a node compiles for operations of all kinds,
// on documents that are there and that are not, alone and in bulks. It must be
// the first on its node: what is compiled stays so.
func measureSearchScripts(ctx context.Context, _ string) ([]result, error) {
	var results []result
	for _, open := range []func(context.Context) (*searchNode, error){openElasticsearch, openSearch} {
		n, err := open(ctx)
		if err != nil {
			return nil, err
		}
		r, err := searchScriptsOf(ctx, n)
		if err := errors.Join(err, n.close()); err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func searchScriptsOf(ctx context.Context, n *searchNode) (result, error) {
	before, err := n.compilations(ctx)
	if err != nil {
		return result{}, err
	}
	store := eslock.New(n, &eslock.Options{Index: n.index})
	if err := store.Init(ctx); err != nil {
		return result{}, err
	}
	start := time.Now()
	done, err := useScripts(ctx, store)
	if err != nil {
		return result{}, err
	}
	if _, err := store.Sweep(ctx, driver.SweepRequest{}); err != nil {
		return result{}, err
	}
	took := time.Since(start)
	after, err := n.compilations(ctx)
	if err != nil {
		return result{}, err
	}
	return result{
		What:  fmt.Sprintf("%s, compilations of each script for 10,000 operations", n.server),
		Value: float64(after-before) / searchScripts,
		Limit: 1,
		Detail: fmt.Sprintf("%d in the node's statistics, of %d scripts, for %d operations in %.1f s",
			after-before, searchScripts, done, took.Seconds()),
	}, nil
}

// compilations of scripts since the node was started.
func (n *searchNode) compilations(ctx context.Context) (sum int, err error) {
	var stats struct {
		Nodes map[string]struct {
			Script struct{ Compilations int }
		}
	}
	err = n.ask(ctx, http.MethodGet, "/_nodes/stats/script", nil, &stats)
	for _, node := range stats.Nodes {
		sum += node.Script.Compilations
	}
	return sum, err
}

// useScripts does many operations and says how many.
func useScripts(ctx context.Context, store *eslock.Store) (done int, err error) {
	for ; done < scaled(searchSingles); done += 10 {
		// A new resource now and then: an insert is another path of the server.
		if err := useEach(ctx, store, fmt.Sprintf("resource-%d", done/100)); err != nil {
			return 0, err
		}
	}
	// The same in bulks.
	renewals, err := holdMany(ctx, store, 0)
	if err != nil {
		return 0, err
	}
	releases := make([]driver.ReleaseRequest, len(renewals))
	for i, q := range renewals {
		releases[i].HoldRef = q.HoldRef
	}
	for done += len(renewals); err == nil && done+2*len(renewals) < scaled(searchOperations); done += len(renewals) {
		var renewed []driver.RenewResult
		renewed, err = store.Renew(ctx, renewals)
		for _, r := range renewed {
			err = errors.Join(err, r.Err)
		}
	}
	for _, failed := range store.List(ctx, driver.Filter{}) {
		err = errors.Join(err, failed)
		done++
	}
	released, failed := store.Release(ctx, releases) // the last 500
	err = errors.Join(err, failed)
	for _, r := range released {
		err = errors.Join(err, r.Err)
		done++
	}
	return done, err
}

// useEach does ten operations on a resource.
func useEach(ctx context.Context, store *eslock.Store, resource string) error {
	held, err := acquireFor(ctx, store, resource, time.Hour)
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := acquireFor(ctx, store, resource, time.Hour); !errors.Is(err, driver.ErrHeld) {
			return fmt.Errorf("want a refusal: %w", err)
		}
		renewed, err := store.Renew(ctx, []driver.RenewRequest{{HoldRef: held, TTL: time.Hour}})
		if err := errors.Join(err, renewed[0].Err); err != nil {
			return err
		}
	}
	for _, err := range store.List(ctx, driver.Filter{Resource: resource}) {
		if err != nil {
			return err
		}
	}
	for range 2 { // released, and not there any more
		released, err := store.Release(ctx, []driver.ReleaseRequest{{HoldRef: held}})
		if err := errors.Join(err, released[0].Err); err != nil {
			return err
		}
	}
	// One for a sweep, and one that finds it expired.
	for range 2 {
		if _, err := acquireFor(ctx, store, resource, time.Millisecond); err != nil && !errors.Is(err, driver.ErrHeld) {
			return err
		}
	}
	return nil
}

func acquireFor(ctx context.Context, store driver.Store, resource string, ttl time.Duration) (driver.HoldRef, error) {
	q := driver.AcquireRequest{Resource: resource, LockID: driver.NewHoldID().String(), HoldID: driver.NewHoldID(), TTL: ttl}
	g, err := store.Acquire(ctx, q)
	return driver.HoldRef{Resource: resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}, err
}
