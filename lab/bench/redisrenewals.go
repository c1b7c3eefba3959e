package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// manyHolds is the number of holds that are kept alive.
const manyHolds = 10_000

// measureRedisRenewals counts the round trips of their renewals.
func measureRedisRenewals(ctx context.Context, _ string) []result {
	db := openCountedRedis(ctx)
	defer finish(db.close)
	db.client.AddHook(db.trips)
	trips, took := renewMany(ctx, db.store, &db.trips.n)
	return []result{{
		What:   "Redis, round trips of 10,000 renewals per 500",
		Value:  float64(trips) / (manyHolds / renewalsPerBatch),
		Limit:  1,
		Detail: fmt.Sprintf("%d round trips in %.0f ms", trips, milliseconds(took)),
	}}
}

// renewMany acquires manyHolds holds and renews them, in batches as the Client does.
func renewMany(ctx context.Context, store driver.Store, trips *atomic.Int64) (n int64, took time.Duration) {
	var all []driver.RenewRequest
	for len(all) < manyHolds {
		all = append(all, holdMany(ctx, store, len(all))...)
	}
	// Load the script into the server, and open the client's connections.
	must(store.Renew(ctx, all[:renewalsPerBatch]))
	before, start := trips.Load(), time.Now()
	for i := 0; i < manyHolds; i += renewalsPerBatch {
		check(renew(ctx, store, all[i:i+renewalsPerBatch]))
	}
	return trips.Load() - before, time.Since(start)
}
