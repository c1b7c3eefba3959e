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
	searchScripts    = 3 // scripts of eslock
	searchOperations = 10_000
	searchSingles    = 1000 // single operations, one after another
)

// measureSearchScripts counts the scripts that a node compiles for all kinds of operations, on
// existing and on missing documents, alone and in bulk requests. It must be the first
// measurement on its node, which keeps compiled scripts.
func measureSearchScripts(ctx context.Context, _ string) []result {
	var results []result
	for _, open := range []func(context.Context) *searchNode{openElasticsearch, openSearch} {
		results = append(results, searchScriptsOf(ctx, open(ctx)))
	}
	return results
}

func searchScriptsOf(ctx context.Context, n *searchNode) result {
	defer finish(n.close)
	before := n.compilations(ctx)
	store := eslock.New(n, &eslock.Options{Index: n.index})
	check(store.Init(ctx))
	start := time.Now()
	done := useScripts(ctx, store)
	must(store.Sweep(ctx, driver.SweepRequest{}))
	took := time.Since(start)
	after := n.compilations(ctx)
	return result{
		What:  fmt.Sprintf("%s, compilations of each script for 10,000 operations", n.server),
		Value: float64(after-before) / searchScripts,
		Limit: 1,
		Detail: fmt.Sprintf("%d in the node's statistics, of %d scripts, for %d operations in %.1f s",
			after-before, searchScripts, done, took.Seconds()),
	}
}

// compilations returns the number of compilations of scripts since the start of the node.
func (n *searchNode) compilations(ctx context.Context) (sum int) {
	var stats struct {
		Nodes map[string]struct {
			Script struct{ Compilations int }
		}
	}
	check(n.ask(ctx, http.MethodGet, "/_nodes/stats/script", nil, &stats))
	for _, node := range stats.Nodes {
		sum += node.Script.Compilations
	}
	return sum
}

// useScripts makes many operations and returns their number.
func useScripts(ctx context.Context, store *eslock.Store) (done int) {
	for ; done < scaled(searchSingles); done += 10 {
		// Use a new resource from time to time: the server inserts by another path.
		useEach(ctx, store, fmt.Sprintf("resource-%d", done/100))
	}
	// The same in bulk requests.
	renewals := holdMany(ctx, store, 0)
	releases := make([]driver.ReleaseRequest, len(renewals))
	for i, q := range renewals {
		releases[i].HoldRef = q.HoldRef
	}
	for done += len(renewals); done+2*len(renewals) < scaled(searchOperations); done += len(renewals) {
		check(renew(ctx, store, renewals))
	}
	for _, err := range store.List(ctx, driver.Filter{}) {
		check(err)
		done++
	}
	for _, r := range must(store.Release(ctx, releases)) { // the last 500
		check(r.Err)
		done++
	}
	return done
}

// useEach makes ten operations on a resource.
func useEach(ctx context.Context, store *eslock.Store, resource string) {
	held := must(acquireFor(ctx, store, resource, time.Hour))
	for range 2 {
		if _, err := acquireFor(ctx, store, resource, time.Hour); !errors.Is(err, driver.ErrHeld) {
			failf("want a refusal: %w", err)
		}
		check(renew(ctx, store, []driver.RenewRequest{{HoldRef: held, TTL: time.Hour}}))
	}
	for _, err := range store.List(ctx, driver.Filter{Resource: resource}) {
		check(err)
	}
	for range 2 { // the second finds nothing
		check(must(store.Release(ctx, []driver.ReleaseRequest{{HoldRef: held}}))[0].Err)
	}
	// The first hold is for a sweep, and the second one finds it expired.
	for range 2 {
		if _, err := acquireFor(ctx, store, resource, time.Millisecond); !errors.Is(err, driver.ErrHeld) {
			check(err)
		}
	}
}

func acquireFor(ctx context.Context, store driver.Store, resource string, ttl time.Duration) (driver.HoldRef, error) {
	q := driver.AcquireRequest{Resource: resource, LockID: driver.NewHoldID().String(), HoldID: driver.NewHoldID(), TTL: ttl}
	g, err := store.Acquire(ctx, q)
	return driver.HoldRef{Resource: resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}, err
}
