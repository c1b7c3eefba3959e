// Package fence_test tests mongolock/fence on a server.
package fence_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock"
	"github.com/holdfast-go/holdfast/mongolock/fence"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var one = bson.D{{Key: "_id", Value: "one"}}

func set(key string, value any) bson.D {
	return bson.D{{Key: "$set", Value: bson.D{{Key: key, Value: value}}}}
}

// documents returns a collection with one document with the given fields.
func documents(t *testing.T, more ...bson.E) *mongo.Collection {
	t.Helper()
	coll := engines.MongoDatabase(t).Collection("documents")
	if _, err := coll.InsertOne(t.Context(), append(bson.D{{Key: "_id", Value: "one"}, {Key: "n", Value: 1}}, more...)); err != nil {
		t.Fatal(err)
	}
	return coll
}

func encode(t *testing.T, d bson.D) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func read(t *testing.T, coll *mongo.Collection) bson.M {
	t.Helper()
	var got bson.M
	if err := coll.FindOne(t.Context(), one).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUpdateOne(t *testing.T) {
	field := func(v any) []bson.E { return []bson.E{{Key: fence.Field, Value: v}} }
	for name, c := range map[string]struct {
		there  []bson.E
		update any
		token  uint64
		want   error
		n      any
		seen   any
	}{
		"the first":        {nil, set("n", 2), 5, nil, int32(2), int64(5)},
		"null":             {field(nil), set("n", 2), 5, nil, int32(2), int64(5)},
		"larger":           {field(4), set("n", 2), 5, nil, int32(2), int64(5)},
		"equal":            {field(int64(5)), set("n", 2), 5, nil, int32(2), int64(5)},
		"smaller":          {field(6), set("n", 2), 5, holdfast.ErrStale, int32(1), int32(6)},
		"by a shell":       {field(6.0), set("n", 2), 5, holdfast.ErrStale, int32(1), 6.0},
		"the largest":      {field(int64(driver.MaxToken) - 1), set("n", 2), driver.MaxToken, nil, int32(2), int64(driver.MaxToken)},
		"another maximum":  {field(4), bson.M{"$max": bson.M{"n": 9}}, 5, nil, int32(9), int64(5)},
		"a pipeline":       {field(4), mongo.Pipeline{set("n", 3)}, 5, nil, int32(3), int64(5)},
		"a stale pipeline": {field(6), bson.A{set("n", 3)}, 5, holdfast.ErrStale, int32(1), int32(6)},
		"a list of stages": {field(4), []bson.D{set("n", 3)}, 5, nil, int32(3), int64(5)},
		"stages as maps":   {field(4), []bson.M{{"$set": bson.M{"n": 3}}}, 5, nil, int32(3), int64(5)},
		"stages as any":    {field(4), []any{set("n", 3)}, 5, nil, int32(3), int64(5)},
		"encoded":          {field(4), encode(t, set("n", 4)), 5, nil, int32(4), int64(5)},
		"encoded by hand":  {field(4), []byte(encode(t, set("n", 4))), 5, nil, int32(4), int64(5)},
		"a pointer":        {field(4), &bson.M{"$set": bson.M{"n": 4}}, 5, nil, int32(4), int64(5)},
		"a struct inside":  {field(4), bson.M{"$set": struct{ N int32 }{4}}, 5, nil, int32(4), int64(5)},
		"$max of a struct": {field(4), bson.M{"$max": struct{ N int32 }{4}}, 5, nil, int32(4), int64(5)},
		"$max and $set": {field(4), bson.D{{Key: "$max", Value: struct{ M int32 }{4}}, {Key: "$set", Value: bson.M{"n": 4}}},
			5, nil, int32(4), int64(5)},
		"$max and $set of structs": {nil, bson.D{{Key: "$max", Value: struct{ M int32 }{4}}, {Key: "$set", Value: struct{ N int32 }{4}}},
			5, holdfast.ErrInvalid, int32(1), nil},
		"a struct": {nil, struct {
			Set bson.D `bson:"$set"`
		}{bson.D{{Key: "n", Value: 4}}}, 5, holdfast.ErrInvalid, int32(1), nil},
		"a struct with the token's field": {nil, bson.M{"$set": struct{ Fence int }{9}}, 5, holdfast.ErrInvalid, int32(1), nil},
		"inside the token's field":        {nil, set(fence.Field+".n", 9), 5, holdfast.ErrInvalid, int32(1), nil},
		"renamed to the token's field": {nil, bson.M{"$rename": bson.M{"n": fence.Field}},
			5, holdfast.ErrInvalid, int32(1), nil},
		"an array with null":     {field(bson.A{nil, 9}), set("n", 2), 5, holdfast.ErrDamaged, int32(1), bson.A{nil, int32(9)}},
		"an empty array":         {field(bson.A{}), set("n", 2), 5, holdfast.ErrDamaged, int32(1), bson.A{}},
		"larger, not whole":      {field(5.5), set("n", 2), 5, holdfast.ErrDamaged, int32(1), 5.5},
		"negative":               {field(-7), set("n", 2), 5, nil, int32(2), int64(5)},
		"a replacement":          {nil, bson.D{{Key: "n", Value: 2}}, 5, holdfast.ErrInvalid, int32(1), nil},
		"the token's field":      {nil, set(fence.Field, 9), 5, holdfast.ErrInvalid, int32(1), nil},
		"nothing":                {nil, nil, 5, holdfast.ErrInvalid, int32(1), nil},
		"what is no document":    {nil, 17, 5, holdfast.ErrInvalid, int32(1), nil},
		"an operator's nonsense": {nil, bson.D{{Key: "$set", Value: 1}}, 5, holdfast.ErrInvalid, int32(1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			coll := documents(t, c.there...)
			for range 2 { // a repeat has the same effect
				if _, err := fence.UpdateOne(t.Context(), coll, one, c.update, c.token); !errors.Is(err, c.want) {
					t.Fatalf("error %v, want %v", err, c.want)
				}
			}
			got := read(t, coll)
			if got["n"] != c.n || !reflect.DeepEqual(got[fence.Field], c.seen) {
				t.Errorf("the document is %v; want n %v, %s %v", got, c.n, fence.Field, c.seen)
			}
		})
	}
}

// The fence is part of the transaction of the caller's ctx, like the data. With the
// session of another client, the driver reports an error.
func TestPartOfTransactions(t *testing.T) {
	coll := documents(t)
	session, err := engines.MongoDatabase(t).Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.WithoutCancel(t.Context()))
	if err := fence.Claim(mongo.NewSessionContext(t.Context(), session), coll, one, 5); !errors.Is(err, mongo.ErrWrongClient) {
		t.Errorf("error %v", err)
	}
}

func TestUpsert(t *testing.T) {
	coll := documents(t)
	upsert := options.UpdateOne().SetUpsert(true)
	for _, filter := range []bson.D{
		{{Key: "n", Value: 1}},
		{{Key: "_id", Value: bson.D{{Key: "$gt", Value: ""}}}},
		{{Key: "_id", Value: bson.Regex{Pattern: "^o"}}},
	} {
		if _, err := fence.UpdateOne(t.Context(), coll, filter, set("n", 2), 5, upsert); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%v: error %v", filter, err)
		}
	}
	two := bson.D{{Key: "_id", Value: "two"}}
	for _, step := range []struct {
		token uint64
		want  error
	}{{5, nil}, {4, holdfast.ErrStale}, {6, nil}, {5, holdfast.ErrStale}} {
		if _, err := fence.UpdateOne(t.Context(), coll, two, set("n", 2), step.token, upsert); !errors.Is(err, step.want) {
			t.Errorf("token %d: error %v, want %v", step.token, err, step.want)
		}
	}
	if n, err := coll.CountDocuments(t.Context(), bson.D{}); err != nil || n != 2 {
		t.Errorf("%d documents, error %v", n, err)
	}
	// A conflict on another unique index is not a stale token.
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "n", Value: 1}}, Options: options.Index().SetUnique(true),
	}); err != nil {
		t.Fatal(err)
	}
	three := bson.D{{Key: "_id", Value: "three"}}
	if _, err := fence.UpdateOne(t.Context(), coll, three, set("n", 2), 5, upsert); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("error %v, want that of the index", err)
	}
}

// A filter without a value for _id must match only one document.
func TestFilters(t *testing.T) {
	coll := documents(t)
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "two"}, {Key: "n", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := fence.UpdateOne(t.Context(), coll, nil, set("n", 2), 5); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no filter: error %v", err)
	}
	byStruct := struct {
		ID string `bson:"_id"`
	}{"one"}
	for _, filter := range []any{bson.M{"n": 1, "_id": "one"}, byStruct, &byStruct, encode(t, one), bson.M{"_id": bson.M{"$lt": "two"}}} {
		if err := fence.Claim(t.Context(), coll, filter, 5); err != nil {
			t.Errorf("%v: error %v", filter, err)
		}
	}
	if err := fence.Claim(t.Context(), coll, bson.M{"n": 3}, 5); !errors.Is(err, mongo.ErrNoDocuments) {
		t.Errorf("none matches: error %v", err)
	}
}

// It takes one statement, and another one only to find out why nothing was changed.
func TestCommands(t *testing.T) {
	coll, commands := sent.Through(t, documents(t))
	claim := func(token uint64, want error) func() {
		return func() {
			if err := fence.Claim(t.Context(), coll, one, token); !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
		}
	}
	commands.Want(t, "a claim", []string{"update"}, claim(7, nil))
	commands.Want(t, "a claim that is refused", []string{"update", "find"}, claim(6, holdfast.ErrStale))
	commands.Want(t, "an invalid update", nil, func() {
		if _, err := fence.UpdateOne(t.Context(), coll, one, nil, 9); err == nil {
			t.Error("no error")
		}
	})
}

// A holder that was stopped for longer than its TTL writes too late.
func TestS2_stopped(t *testing.T) {
	documents := documents(t)
	db := engines.MongoDatabase(t)
	client := holdfast.New(mongolock.New(db.Collection("locks"), nil), nil)
	defer client.Close()
	lock := func() *holdfast.Hold {
		h, err := client.TryLock(t.Context(), "one", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := fence.Claim(h.Context(), documents, one, h.Token()); err != nil {
			t.Fatal(err)
		}
		return h
	}
	stopped := lock()
	if _, err := client.Admin().ForceRelease(t.Context(), "one", stopped.ID()); err != nil {
		t.Fatal(err)
	}
	successor := lock()
	_, err := fence.UpdateOne(t.Context(), documents, one, set("n", 666), stopped.Token())
	if !errors.Is(err, holdfast.ErrStale) {
		t.Errorf("a write that came too late: error %v", err)
	}
	if _, err := fence.UpdateOne(t.Context(), documents, one, set("n", 2), successor.Token()); err != nil {
		t.Error(err)
	}
	if got := read(t, documents); got["n"] != int32(2) {
		t.Errorf("the document is %v", got)
	}
}
