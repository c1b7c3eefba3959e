package fence_test

import (
	"context"
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver/fencetest"
	"github.com/holdfast-go/holdfast/mongolock/fence"
)

func TestFence(t *testing.T) {
	t.Run("by ID", func(t *testing.T) {
		fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
			h, coll := harness(t, one)
			h.Put = func(ctx context.Context, value int64, token uint64) error {
				_, err := fence.UpdateOne(ctx, coll, one, set("n", value), token, options.UpdateOne().SetUpsert(true))
				return err
			}
			return h
		})
	})
	t.Run("by another field", func(t *testing.T) {
		fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
			h, coll := harness(t, bson.D{{Key: "name", Value: "one"}})
			h.Twin = func(t *testing.T) {
				if _, err := coll.InsertOne(t.Context(), bson.M{"_id": "two", "name": "one", "n": 1}); err != nil {
					t.Fatal(err)
				}
			}
			return h
		})
	})
}

// harness is for a document that the filter matches.
func harness(t *testing.T, filter bson.D) (*fencetest.Harness, *mongo.Collection) {
	coll := documents(t, bson.E{Key: "name", Value: "one"})
	update := func(t *testing.T, u bson.D) {
		t.Helper()
		if _, err := coll.UpdateOne(t.Context(), one, u); err != nil {
			t.Fatal(err)
		}
	}
	damages := make(map[string]func(t *testing.T))
	for name, v := range map[string]any{
		"a text": "7", "an array": bson.A{3, 100}, "an array of one": bson.A{3}, "not a number": math.NaN(),
		"infinite": math.Inf(1), "a document": bson.M{"n": 1},
	} {
		damages[name] = func(t *testing.T) { update(t, set(fence.Field, v)) }
	}
	return &fencetest.Harness{
		Claim: func(ctx context.Context, token uint64) error { return fence.Claim(ctx, coll, filter, token) },
		Write: func(ctx context.Context, value int64, token uint64) error {
			_, err := fence.UpdateOne(ctx, coll, filter, set("n", value), token)
			return err
		},
		Value: func(t *testing.T) int64 { return number(t, coll, "n") },
		Seen:  func(t *testing.T) uint64 { return uint64(number(t, coll, fence.Field)) },

		NotFound: mongo.ErrNoDocuments,
		Remove: func(t *testing.T) {
			if _, err := coll.DeleteOne(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		},
		Damages: damages,
	}, coll
}

// number returns the value of a field, 0 if it is missing.
func number(t *testing.T, coll *mongo.Collection, field string) int64 {
	t.Helper()
	doc, err := coll.FindOne(t.Context(), one).Raw()
	if err != nil {
		t.Fatal(err)
	}
	n, _ := doc.Lookup(field).AsInt64OK()
	return n
}
