package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	postgresWaiters   = 64
	postgresHandOvers = 2000
)

// measurePostgresHandOver lets many goroutines wait for one lock, and measures the time from an
// unlock to the next grant.
func measurePostgresHandOver(ctx context.Context, _ string) []result {
	db := openPostgres(ctx)
	defer finish(db.close)
	var results []result
	for _, n := range []int{1, 8} {
		clients := make([]*holdfast.Client, n)
		for i := range clients {
			clients[i] = holdfast.New(db.store, nil)
			defer finish(clients[i].Close)
		}
		took := crowd(ctx, clients)
		results = append(results, result{
			What:  fmt.Sprintf("PostgreSQL, hand-over among %d waiters in %s, p99", postgresWaiters, clientsOf(n)),
			Value: milliseconds(quantile(took, 0.99)),
			Unit:  "ms",
			Limit: 25,
			Detail: fmt.Sprintf("%d hand-overs, from before Unlock to the next grant: p50 %.1f ms, p99 %.1f ms, longest %.1f ms",
				len(took), milliseconds(median(took)), milliseconds(quantile(took, 0.99)), milliseconds(slices.Max(took))),
			Points: timePoints("hand-overs", fmt.Sprintf("PostgreSQL, %d waiters in %s", postgresWaiters, clientsOf(n)), took),
		})
	}
	return results
}

func clientsOf(n int) string {
	if n == 1 {
		return "one Client"
	}
	return fmt.Sprintf("%d Clients", n)
}

// crowd lets goroutines lock and unlock one resource, and returns the time of each hand-over.
func crowd(ctx context.Context, clients []*holdfast.Client) (took []time.Duration) {
	var mu sync.Mutex // for the race detector, which does not know about the lock
	var unlocked time.Time
	atOnce(postgresWaiters, func(i int) {
		client := clients[i%len(clients)]
		for enough := false; !enough; {
			h := must(client.Lock(ctx, "crowded", nil))
			granted := time.Now()
			mu.Lock()
			if !unlocked.IsZero() {
				took = append(took, granted.Sub(unlocked))
			}
			enough = len(took) >= scaled(postgresHandOvers)
			unlocked = time.Now()
			mu.Unlock()
			check(h.Unlock(ctx))
		}
	})
	return took
}
