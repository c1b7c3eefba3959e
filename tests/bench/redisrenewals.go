package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// manyHolds is how many are kept alive.
const manyHolds = 10_000

// measureRedisRenewals counts the round trips of that many renewals.
func measureRedisRenewals(ctx context.Context, _ string) (_ []result, err error) {
	db, err := openCountedRedis(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	db.client.AddHook(db.trips)
	trips, took, err := renewMany(ctx, db.store, &db.trips.n)
	if err != nil {
		return nil, err
	}
	return []result{{
		What:   "Redis, round trips of 10,000 renewals per 500",
		Value:  float64(trips) / (manyHolds / renewalsPerBatch),
		Limit:  1,
		Detail: fmt.Sprintf("%d round trips in %.0f ms", trips, milliseconds(took)),
	}}, nil
}

// counter is what a client library counts round trips with.
type counter interface{ Load() int64 }

// renewMany takes manyHolds and renews them, in batches as the Client does.
func renewMany(ctx context.Context, store driver.Store, trips counter) (n int64, took time.Duration, err error) {
	var all []driver.RenewRequest
	for len(all) < manyHolds {
		some, err := holdMany(ctx, store, len(all))
		if err != nil {
			return 0, 0, err
		}
		all = append(all, some...)
	}
	// The server gets the statement, and the client its connections.
	if _, err := store.Renew(ctx, all[:renewalsPerBatch]); err != nil {
		return 0, 0, err
	}
	before, start := trips.Load(), time.Now()
	for i := 0; i < manyHolds; i += renewalsPerBatch {
		results, err := store.Renew(ctx, all[i:i+renewalsPerBatch])
		for _, r := range results {
			err = errors.Join(err, r.Err)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return trips.Load() - before, time.Since(start), nil
}
