package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

const manyDocuments = 100_000

// measureMongoResources compares the time to lock and unlock a resource, chosen at
// random, in a collection with many and in one with few.
func measureMongoResources(ctx context.Context, _ string) (_ []result, err error) {
	db, err := openMongo(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	var pairs [2]func() error
	for i, size := range []int{1, manyDocuments} {
		collection := fmt.Sprintf("locks-%d", size)
		client, _, closeLocks, err := db.lockIn(ctx, collection)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeLocks()) }()
		if err := copyDocument(ctx, db.Collection(collection), size); err != nil {
			return nil, err
		}
		pairs[i] = func() error { return lockAndUnlock(ctx, client, resourceName(rand.N(size))) }
	}
	few, many, err := timesInTurns(1000, pairs[0], pairs[1])
	if err != nil {
		return nil, err
	}
	return []result{{
		What:  "MongoDB, Lock and Unlock among 100,000 resources per that among 2",
		Value: float64(median(many)) / float64(median(few)),
		Limit: 1.2,
		Detail: fmt.Sprintf("medians of %d in turns: %.2f ms and %.2f ms; p99 %.2f ms and %.2f ms on %s; resources at random, the documents copies of one that mongolock wrote",
			len(many), milliseconds(median(many)), milliseconds(median(few)),
			milliseconds(quantile(many, 0.99)), milliseconds(quantile(few, 0.99)), db.server),
	}}, nil
}

// timesInTurns does both so often, in turns, and returns how long each took.
func timesInTurns(rounds int, a, b func() error) (as, bs []time.Duration, err error) {
	timed := func(do func() error, times *[]time.Duration) func(bool) error {
		return func(counts bool) error {
			start := time.Now()
			err := do()
			if counts {
				*times = append(*times, time.Since(start))
			}
			return err
		}
	}
	err = inTurns(rounds, timed(a, &as), timed(b, &bs))
	return as, bs, err
}

// copyDocument makes that many documents of the one that is there.
func copyDocument(ctx context.Context, coll *mongo.Collection, n int) error {
	var doc bson.D
	if err := coll.FindOne(ctx, bson.D{}).Decode(&doc); err != nil {
		return err
	}
	const part = 1000
	for i := 0; i < n; i += part {
		var docs []any
		for j := i; j < min(i+part, n); j++ {
			docs = append(docs, with(doc, "_id", bson.NewObjectID(), "resource", resourceName(j)))
		}
		if _, err := coll.InsertMany(ctx, docs); err != nil {
			return err
		}
	}
	return nil
}

// with is a copy of the document with other values of fields.
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

// manyHolders is how many share a resource already.
var manyHolders = []int{1, 100, 1000}

// measureMongoHolders compares RLock and RUnlock of one more holder with the same
// two statements sent bare, on the same document, which has few and many holders.
func measureMongoHolders(ctx context.Context, _ string) (_ []result, err error) {
	db, err := openMongo(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	client, store, closeLocks, err := db.lockIn(ctx, "locks")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeLocks()) }()
	var results []result
	var allocations []float64
	for _, n := range manyHolders {
		resource := fmt.Sprintf("shared by %d", n)
		if err := share(ctx, store, db.Collection("locks"), resource, n); err != nil {
			return nil, err
		}
		b, err := recordMongo(ctx, resource, driver.Shared)
		if err != nil {
			return nil, err
		}
		b = b.in(db.Collection("locks"))
		pair := func() error { return shareAndUnlock(ctx, client, resource) }
		ours, bare, err := timesInTurns(100, pair, func() error { return b.lockAndUnlock(ctx) })
		if err != nil {
			return nil, err
		}
		made, err := allocatedBy(pair)
		if err != nil {
			return nil, err
		}
		allocations = append(allocations, made)
		results = append(results, result{
			What:    fmt.Sprintf("MongoDB, RLock and Unlock beside %d holders per the same two statements sent bare", n),
			Value:   float64(median(bare)) / float64(median(ours)),
			AtLeast: true, Limit: 0.9,
			Detail: fmt.Sprintf("medians of %d in turns: %.2f ms and %.2f ms on %s",
				len(ours), milliseconds(median(ours)), milliseconds(median(bare)), db.server),
		})
	}
	return append(results, result{
		What:   "MongoDB, memory for RLock and Unlock beside 1,000 holders per that beside 1",
		Value:  allocations[len(allocations)-1] / allocations[0],
		Limit:  1.2,
		Detail: fmt.Sprintf("%.1f kB and %.1f kB allocated by the process, replies included", allocations[len(allocations)-1]/1000, allocations[0]/1000),
	}), nil
}

func shareAndUnlock(ctx context.Context, client *holdfast.Client, resource string) error {
	h, err := client.RLock(ctx, resource, nil)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

// share gives the resource n holders: copies of one, but for the IDs.
func share(ctx context.Context, store driver.Store, coll *mongo.Collection, resource string, n int) error {
	_, err := store.Acquire(ctx, driver.AcquireRequest{
		Resource: resource, LockID: "first", HoldID: driver.NewHoldID(), Mode: driver.Shared, TTL: time.Hour,
		Details: driver.Details{Owner: "owner", Host: "host"},
	})
	if err != nil {
		return err
	}
	var doc struct {
		Shared struct {
			Locks []bson.D `bson:"locks"`
		} `bson:"shared"`
	}
	filter := bson.D{{Key: "resource", Value: resource}}
	if err := coll.FindOne(ctx, filter).Decode(&doc); err != nil {
		return err
	}
	locks := make(bson.A, n)
	for i := range locks {
		locks[i] = with(doc.Shared.Locks[0], "_id", bson.NewObjectID(), "lockId", fmt.Sprintf("holder-%d", i), "holdId", driver.NewHoldID().String())
	}
	_, err = coll.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: bson.D{
		{Key: "shared.count", Value: n}, {Key: "shared.locks", Value: locks},
	}}})
	return err
}

// allocatedBy returns how many bytes f allocates, on average.
func allocatedBy(f func() error) (float64, error) {
	const times = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		if err := f(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / times, nil
}
