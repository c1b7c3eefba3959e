package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// manyHolders are the numbers of holders that share a resource already.
var manyHolders = []int{1, 100, 1000}

// measureMongoHolders compares RLock and RUnlock of one more holder with the same two
// statements sent bare, on the same document with few and with many holders.
func measureMongoHolders(ctx context.Context, _ string) []result {
	db := openMongo(ctx, nil)
	defer finish(db.close)
	client, store, closeLocks := db.lockIn(ctx, "locks")
	defer finish(closeLocks)
	var results []result
	var allocations []float64
	var pairs, changes []time.Duration // medians
	for _, n := range manyHolders {
		resource := fmt.Sprintf("shared by %d", n)
		share(ctx, store, db.Collection("locks"), resource, n)
		b := recordMongo(ctx, resource, driver.Shared).in(db.Collection("locks"))
		pair := func() error { return shareAndUnlock(ctx, client, resource) }
		rounds := min(400, 60_000/n) // a round with a thousand holders takes a while
		ours, bare := timesInTurns(rounds, pair, func() error { return b.lockAndUnlock(ctx) })
		_, made := allocated(20, pair)
		allocations = append(allocations, made)
		change := func() error { return pushAndPull(ctx, db.Collection("locks"), resource) }
		again, least := timesInTurns(rounds, pair, change)
		pairs, changes = append(pairs, median(again)), append(changes, median(least))
		results = append(results, result{
			What:    fmt.Sprintf("MongoDB, RLock and Unlock beside %d holders per the same two statements sent bare", n),
			Value:   float64(median(bare)) / float64(median(ours)),
			AtLeast: true, Limit: 0.9,
			Detail: fmt.Sprintf("medians of %d in turns: %.2f ms and %.2f ms on %s",
				len(ours), milliseconds(median(ours)), milliseconds(median(bare)), db.server),
		})
	}
	last := len(manyHolders) - 1
	growth := func(of []time.Duration) float64 { return float64(of[last]) / float64(of[0]) }
	return append(results, result{
		What:  "MongoDB, growth of RLock and Unlock from 1 to 1,000 holders per that of $push and $pull",
		Value: growth(pairs) / growth(changes),
		Limit: 1.1, // both grow alike, apart from noise
		Detail: fmt.Sprintf("from %.2f ms to %.2f ms, and from %.2f ms to %.2f ms: medians of rounds in turns on %s",
			milliseconds(pairs[0]), milliseconds(pairs[last]), milliseconds(changes[0]), milliseconds(changes[last]), db.server),
	}, result{
		What:   "MongoDB, memory for RLock and Unlock beside 1,000 holders per that beside 1",
		Value:  allocations[last] / allocations[0],
		Limit:  1.2,
		Detail: fmt.Sprintf("%.1f kB and %.1f kB allocated by the process, replies included", allocations[last]/1000, allocations[0]/1000),
	})
}

func shareAndUnlock(ctx context.Context, client *holdfast.Client, resource string) error {
	h, err := client.RLock(ctx, resource, nil)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

// pushAndPull is the least work that adds a lock to a document and removes it, without any
// decision.
func pushAndPull(ctx context.Context, coll *mongo.Collection, resource string) error {
	field := func(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }
	lock := field("shared.locks", field("lockId", "another"))
	for _, how := range []string{"$push", "$pull"} {
		if _, err := coll.UpdateOne(ctx, field("resource", resource), field(how, lock)); err != nil {
			return err
		}
	}
	return nil
}

// share gives the resource n holders: copies of one, with other IDs.
func share(ctx context.Context, store driver.Store, coll *mongo.Collection, resource string, n int) {
	must(store.Acquire(ctx, driver.AcquireRequest{
		Resource: resource, LockID: "first", HoldID: driver.NewHoldID(), Mode: driver.Shared, TTL: time.Hour,
		Details: driver.Details{Owner: "owner", Host: "host"},
	}))
	var doc struct {
		Shared struct {
			Locks []bson.D `bson:"locks"`
		} `bson:"shared"`
	}
	filter := bson.D{{Key: "resource", Value: resource}}
	check(coll.FindOne(ctx, filter).Decode(&doc))
	locks := make(bson.A, n)
	for i := range locks {
		locks[i] = with(doc.Shared.Locks[0], "_id", bson.NewObjectID(), "lockId", fmt.Sprintf("holder-%d", i), "holdId", driver.NewHoldID().String())
	}
	must(coll.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: bson.D{
		{Key: "shared.count", Value: n}, {Key: "shared.locks", Value: locks},
	}}}))
}
