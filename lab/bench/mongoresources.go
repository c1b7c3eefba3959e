package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const manyDocuments = 100_000

// measureMongoResources compares the time to lock and unlock a random resource in a collection
// with many and in one with few.
func measureMongoResources(ctx context.Context, _ string) []result {
	db := openMongo(ctx, nil)
	defer finish(db.close)
	var pairs [2]func() error
	for i, size := range []int{1, scaled(manyDocuments)} {
		collection := fmt.Sprintf("locks-%d", size)
		client, _, closeLocks := db.lockIn(ctx, collection)
		defer finish(closeLocks)
		copyDocument(ctx, db.Collection(collection), size)
		pairs[i] = func() error { return lockAndUnlock(ctx, client, resourceName(rand.N(size))) }
	}
	few, many := timesInTurns(1000, pairs[0], pairs[1])
	return []result{{
		What:  "MongoDB, Lock and Unlock among 100,000 resources per that among 2",
		Value: float64(median(many)) / float64(median(few)),
		Limit: 1.2,
		Detail: fmt.Sprintf("medians of %d in turns: %.2f ms and %.2f ms; p99 %.2f ms and %.2f ms on %s; resources at random, the documents copies of one that mongolock wrote",
			len(many), milliseconds(median(many)), milliseconds(median(few)),
			milliseconds(quantile(many, 0.99)), milliseconds(quantile(few, 0.99)), db.server),
	}}
}

// timesInTurns calls a and b in turns, and returns how long each call took.
func timesInTurns(rounds int, a, b func() error) (as, bs []time.Duration) {
	timed := func(do func() error, times *[]time.Duration) func(bool) {
		return func(counts bool) {
			start := time.Now()
			check(do())
			if counts {
				*times = append(*times, time.Since(start))
			}
		}
	}
	inTurns(rounds, timed(a, &as), timed(b, &bs))
	return as, bs
}

// copyDocument makes n copies of the existing document.
func copyDocument(ctx context.Context, coll *mongo.Collection, n int) {
	var doc bson.D
	check(coll.FindOne(ctx, bson.D{}).Decode(&doc))
	const part = 1000
	for i := 0; i < n; i += part {
		var docs []any
		for j := i; j < min(i+part, n); j++ {
			docs = append(docs, with(doc, "_id", bson.NewObjectID(), "resource", resourceName(j)))
		}
		must(coll.InsertMany(ctx, docs))
	}
}

// with returns a copy of the document with other values in some fields.
func with(doc bson.D, pairs ...any) bson.D {
	changed := append(bson.D(nil), doc...)
	for i := range changed {
		for j := 0; j < len(pairs); j += 2 {
			if changed[i].Key == pairs[j] {
				changed[i].Value = pairs[j+1]
			}
		}
	}
	return changed
}
