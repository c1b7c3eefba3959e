package main

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// searchRounds is the number of rounds of each side. There are many because a node does much
// work in the background.
const searchRounds = 100

// measureSearchPair compares Lock and Unlock with the same two updates sent bare, by one worker
// and by 16, each with a resource of its own.
func measureSearchPair(ctx context.Context, _ string) []result {
	return onOpenSearch(ctx, func(n *searchNode, client *holdfast.Client) []result {
		var results []result
		for _, workers := range []int{1, 16} {
			results = append(results, searchPair(ctx, n, client, workers))
		}
		return results
	})
}

func searchPair(ctx context.Context, n *searchNode, client *holdfast.Client, workers int) result {
	locks, bare := make([]func() error, workers), make([]func() error, workers)
	for i := range workers {
		resource := fmt.Sprintf("resource-%d", i)
		b := recordSearch(ctx, n, resource)
		bare[i] = func() error { return b.lockAndUnlock(ctx) }
		locks[i] = func() error { return lockAndUnlock(ctx, client, resource) }
	}
	ours, theirs := ratesInTurns(searchRounds, rateTurn, locks, bare)
	return result{
		What:    fmt.Sprintf("%s, Lock and Unlock per the same two updates sent bare, %s", n.server, workersOf(workers)),
		Value:   medianRatio(ours, theirs),
		AtLeast: true, Limit: 0.9,
		Detail: fmt.Sprintf("median ratio of %d rounds in turns, with medians of %.0f and %.0f pairs per second; the same client, each worker on a resource of its own",
			searchRounds, median(ours), median(theirs)),
		Points: pairPoints(n.server+", "+workersOf(workers), ours, sameBare, theirs),
	}
}
