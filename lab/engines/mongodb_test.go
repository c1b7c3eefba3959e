package engines_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/lab/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// These tests check properties of a server on which stores rely. A real server has them too:
// with HOLDFAST_TEST_MONGODB_URL the tests run on it.

func locks(t *testing.T) *mongo.Collection {
	t.Helper()
	c := engines.MongoDatabase(t).Collection("locks")
	_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "resource", Value: 1}}, Options: options.Index().SetUnique(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// d returns a document of names and values.
func d(pairs ...any) bson.D {
	var out bson.D
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// modify is a findOneAndUpdate with upsert.
func modify(t *testing.T, c *mongo.Collection, resource string, fields bson.D, stages ...any) bson.M {
	t.Helper()
	o := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
	if fields != nil {
		o.SetProjection(fields)
	}
	var after bson.M
	if err := c.FindOneAndUpdate(t.Context(), d("resource", resource), bson.A(stages), o).Decode(&after); err != nil {
		t.Fatal(err)
	}
	return after
}

// take sets the owner unless there is one, and counts the requests.
func take(owner string) bson.A {
	return bson.A{
		d("$set", d("owner", d("$ifNull", bson.A{"$owner", d("$literal", owner)}))),
		d("$set", d("asked", d("$add", bson.A{d("$ifNull", bson.A{"$asked", 0}), 1}))),
	}
}

func TestOneOfManyUpsertsWins(t *testing.T) {
	c := locks(t)
	const acquirers = 32
	var won, asked sync.Map
	var all sync.WaitGroup
	for i := range acquirers {
		all.Go(func() {
			me := fmt.Sprint("acquirer ", i)
			for {
				var after struct {
					Owner string
					Asked int
				}
				err := c.FindOneAndUpdate(t.Context(), d("resource", "r"), take(me),
					options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&after)
				if mongo.IsDuplicateKeyError(err) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				won.Store(after.Owner, true)
				asked.Store(after.Asked, true) // the same number in two replies would be one document seen twice
				return
			}
		})
	}
	all.Wait()
	owners, numbers := 0, 0
	won.Range(func(any, any) bool { owners++; return true })
	asked.Range(func(any, any) bool { numbers++; return true })
	if owners != 1 || numbers != acquirers {
		t.Errorf("%d owners and %d numbers, want 1 and %d", owners, numbers, acquirers)
	}
}

// An upsert whose filter has $expr does not define what to insert.
func TestExprInUpsertIsRefused(t *testing.T) {
	c := locks(t)
	err := c.FindOneAndUpdate(t.Context(), d("$expr", d("$lt", bson.A{"$end", "$$NOW"})), take("me"),
		options.FindOneAndUpdate().SetUpsert(true)).Err()
	if e, ok := errors.AsType[mongo.CommandError](err); !ok || e.Code != 224 {
		t.Errorf("got %v, want code 224", err)
	}
}

func TestBulkWriteOfPipelines(t *testing.T) {
	c := locks(t)
	const n = 500
	var models []mongo.WriteModel
	for i := range n {
		models = append(models, mongo.NewUpdateOneModel().SetFilter(d("resource", fmt.Sprint("r", i))).SetUpdate(take("me")).SetUpsert(i%2 == 0))
	}
	models = append(models,
		mongo.NewUpdateOneModel().SetFilter(d("resource", "r0")).SetUpdate(bson.A{d("$set", d("resource", "r2"))}), // a duplicate
		mongo.NewUpdateManyModel().SetFilter(bson.D{}).SetUpdate(bson.A{d("$set", d("all", "$resource"))}))
	result, err := c.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(false))
	if failed, ok := errors.AsType[mongo.BulkWriteException](err); !ok || len(failed.WriteErrors) != 1 || failed.WriteErrors[0].Index != n {
		t.Errorf("got %v, want the duplicate alone", err)
	}
	if result.UpsertedCount != n/2 || result.MatchedCount != n/2 || result.ModifiedCount != n/2 || len(result.UpsertedIDs) != n/2 {
		t.Errorf("upserted %d, matched %d, modified %d; want %d each", result.UpsertedCount, result.MatchedCount, result.ModifiedCount, n/2)
	}

	// An ordered write stops at the first error.
	_, err = c.BulkWrite(t.Context(), []mongo.WriteModel{
		mongo.NewUpdateOneModel().SetFilter(d("resource", "r0")).SetUpdate(d("$set", d("resource", "r2"))),
		mongo.NewUpdateOneModel().SetFilter(d("resource", "r0")).SetUpdate(d("$set", d("late", true))),
	})
	if !mongo.IsDuplicateKeyError(err) {
		t.Errorf("got %v, want a duplicate key", err)
	}
	if late, err := c.CountDocuments(t.Context(), d("late", true)); err != nil || late != 0 {
		t.Errorf("%d updates after an error (%v)", late, err)
	}
}
