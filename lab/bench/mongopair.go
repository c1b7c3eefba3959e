package main

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// mongoRounds is the number of rounds of each side.
const mongoRounds = 60

// measureMongoPair compares Lock and Unlock with the same two statements sent bare, by one
// worker and by 32, each with a resource of its own.
func measureMongoPair(ctx context.Context, _ string) []result {
	db := openMongo(ctx, nil)
	defer finish(db.close)
	client, _, closeLocks := db.lockIn(ctx, "locks")
	defer finish(closeLocks)
	var results []result
	for _, workers := range []int{1, 32} {
		results = append(results, mongoPair(ctx, db, client, workers))
	}
	return results
}

func mongoPair(ctx context.Context, db *mongoDB, client *holdfast.Client, workers int) result {
	locks, bare := make([]func() error, workers), make([]func() error, workers)
	for i := range workers {
		resource := fmt.Sprintf("resource-%d", i)
		b := recordMongo(ctx, resource, driver.Exclusive).in(db.Collection("locks"))
		bare[i] = func() error { return b.lockAndUnlock(ctx) }
		locks[i] = func() error { return lockAndUnlock(ctx, client, resource) }
	}
	ours, theirs := ratesInTurns(mongoRounds, rateTurn, locks, bare)
	return result{
		What:    "MongoDB, Lock and Unlock per the same two statements sent bare, " + workersOf(workers),
		Value:   median(ours) / median(theirs),
		AtLeast: true, Limit: 0.9,
		Detail: fmt.Sprintf("medians of %d rounds in turns: %.0f and %.0f pairs per second on %s; the same mongo.Client, each worker on a resource of its own",
			mongoRounds, median(ours), median(theirs), db.server),
		Points: pairPoints(db.row()+", "+workersOf(workers), ours, sameBare, theirs),
	}
}
