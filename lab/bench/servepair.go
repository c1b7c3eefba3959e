package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

const (
	// serveRounds is the number of rounds of each side. A turn takes serveTurn, plus the time
	// to finish the work that was begun.
	serveRounds = 24
	serveTurn   = 250 * time.Millisecond
)

// serveWorkers are the numbers of concurrent workers, each on a resource of its own.
var serveWorkers = []int{1, 64}

// measureServePair compares Lock and Unlock through a server with those on its store.
func measureServePair(ctx context.Context, dir string) []result {
	return withServers(ctx, dir, func(store *servedStore, s *servedTwice) []result {
		var all []result
		for _, workers := range serveWorkers {
			own := lockers(ctx, workers, servedCaller{locks: store.locks})
			plain := lockers(ctx, workers, s.plain.callers...)
			secure := lockers(ctx, workers, s.secure.callers...)
			row := fmt.Sprintf("%s, %s", store.name, workersOf(workers))
			rates := ratesOfSides(serveRounds, serveTurn, own, plain, secure)
			for i, what := range []string{s.plain.scheme(), s.secure.scheme()} {
				all = append(all, result{
					What:    fmt.Sprintf("%s, Lock and Unlock over %s per the store's own, %s", store.name, what, workersOf(workers)),
					Value:   medianRatio(rates[i+1], rates[0]),
					AtLeast: true, Limit: 0.5, Figure: store.name != "PostgreSQL",
					Detail: fmt.Sprintf("median ratio of %d rounds in turns, with medians of %.0f and %.0f pairs per second; a process of holdfast serve with auth and audit",
						serveRounds, median(rates[i+1]), median(rates[0])),
					Points: []results.Point{
						ratePoint("serve", row, "the store itself", rates[0]),
						ratePoint("serve", row, "over "+what, rates[i+1]),
					},
				})
			}
		}
		return all
	})
}

// lockers returns workers that lock and unlock resources of their own. They use the Clients in
// turn.
func lockers(ctx context.Context, n int, callers ...servedCaller) (all []func() error) {
	for i := range n {
		resource, locks := fmt.Sprintf("resource-%d", i), callers[i%len(callers)].locks
		all = append(all, func() error { return lockAndUnlock(ctx, locks, resource) })
	}
	return all
}
