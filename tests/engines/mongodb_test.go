package engines_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/tests/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is tested here are properties of a server that stores build upon. They
// hold for a real one too: with HOLDFAST_TEST_MONGODB_URL they are tested there.

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

// d makes a document of names and values.
func d(pairs ...any) bson.D {
	var out bson.D
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

// modify is a findOneAndUpdate that inserts where there is nothing.
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

// take sets the owner where there is none, and counts who asked.
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
				asked.Store(after.Asked, true) // two replies with one number would be one document seen twice
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

// An upsert whose filter has $expr could not say what to insert.
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

	// Nothing after the first error, where the order counts.
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

func TestClockOfADatabase(t *testing.T) {
	if !engines.MongoDB(t).Emulated {
		t.Skip("the clock of a real server cannot be set")
	}
	c := locks(t)
	for _, want := range []time.Time{time.UnixMilli(1_900_000_000_123), time.UnixMilli(1_800_000_000_000)} {
		if err := engines.SetMongoClock(t.Context(), c.Database(), want); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got := modify(t, c, "r", d("at", 1, "now", "$$NOW"), d("$set", d("at", "$$NOW")))
			for _, field := range []string{"at", "now"} {
				if at := got[field].(bson.DateTime).Time(); !at.Equal(want) {
					t.Errorf("%s is %v, want %v", field, at, want)
				}
			}
		}
	}
}

func TestFailures(t *testing.T) {
	if !engines.MongoDB(t).Emulated {
		t.Skip("a real server fails by fail points of its own")
	}
	c := locks(t)
	fail := func(f engines.MongoFailure) {
		t.Helper()
		if err := engines.FailMongo(t.Context(), c.Database(), f); err != nil {
			t.Fatal(err)
		}
	}
	count := func(want int64) {
		t.Helper()
		if n, err := c.CountDocuments(t.Context(), d("done", true)); err != nil || n != want {
			t.Errorf("%d documents are written, want %d; error %v", n, want, err)
		}
	}
	update := func() (*mongo.BulkWriteResult, error) {
		var models []mongo.WriteModel
		for i := range 4 {
			models = append(models, mongo.NewUpdateOneModel().SetFilter(d("resource", fmt.Sprint("r", i))).
				SetUpdate(d("$set", d("done", true))).SetUpsert(true))
		}
		return c.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(false))
	}

	fail(engines.MongoFailure{Command: "update", Times: 2, Code: 112, Labels: []string{"Later"}})
	for range 2 {
		_, err := update()
		if e, ok := errors.AsType[mongo.ServerError](err); !ok || !e.HasErrorCode(112) || !e.HasErrorLabel("Later") {
			t.Errorf("error %v, want code 112 and a label", err)
		}
	}
	count(0)
	fail(engines.MongoFailure{Command: "update", Times: 1, Items: map[int]int{0: 112, 2: 8}})
	result, err := update()
	failed, ok := errors.AsType[mongo.BulkWriteException](err)
	if !ok || len(failed.WriteErrors) != 2 || failed.WriteErrors[0].Index != 0 || failed.WriteErrors[1].Index != 2 ||
		failed.WriteErrors[0].Code != 112 || failed.WriteErrors[1].Code != 8 {
		t.Errorf("error %v, want those of two items", err)
	}
	if result.UpsertedCount != 2 || result.UpsertedIDs[1] == nil || result.UpsertedIDs[3] == nil {
		t.Errorf("result %+v", result)
	}
	count(2)
	fail(engines.MongoFailure{Command: "update", Times: 1, Code: 64, Written: true})
	_, err = update()
	if failed, ok := errors.AsType[mongo.BulkWriteException](err); !ok || failed.WriteConcernError == nil || failed.WriteConcernError.Code != 64 {
		t.Errorf("error %v, want one of the write concern", err)
	}
	count(4)
	if _, err := update(); err != nil {
		t.Error(err)
	}
}

func TestRestart(t *testing.T) {
	s := engines.NewMongoServer(t)
	client, err := mongo.Connect(options.Client().ApplyURI(s.URL).SetServerSelectionTimeout(3 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Disconnect(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	c := client.Database(engines.Name()).Collection("locks")
	insert := func() error {
		_, err := c.InsertOne(t.Context(), d("resource", "r"))
		return err
	}
	if err := insert(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := insert(); err == nil {
		t.Error("a server that was stopped still answers")
	}
	before := s.URL
	s.Restart(t)
	if s.URL != before {
		t.Errorf("restarted at %s, was at %s", s.URL, before)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := insert()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer 30 s after the restart: %v", err)
		}
	}
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
		t.Errorf("%d documents (%v), want 1: the emulator has forgotten the rest", n, err)
	}
}

func TestMongoURL(t *testing.T) {
	for _, tc := range []struct{ url, want string }{
		{"mongodb://h:1/?directConnection=true", "mongodb://h:1/db?directConnection=true&collection=c"},
		{"mongodb://u:p@h:1,h:2/admin?replicaSet=rs", "mongodb://u:p@h:1,h:2/db?replicaSet=rs&collection=c"},
		{"mongodb://h", "mongodb://h/db?collection=c"},
	} {
		if got := engines.MongoURL(engines.Engine{URL: tc.url}, "db", "collection=c"); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.url, got, tc.want)
		}
	}
}

func TestMongoClock(t *testing.T) {
	c := locks(t)
	clock := engines.NewMongoClock(t, c.Database())
	var last time.Time
	for _, pass := range []time.Duration{0, 20 * time.Millisecond, time.Millisecond} {
		if err := clock.Pass(t.Context(), pass); err != nil {
			t.Fatal(err)
		}
		now := modify(t, c, "r", d("now", "$$NOW"), d("$set", d("at", "$$NOW")))["now"].(bson.DateTime).Time()
		if now.Before(last.Add(pass)) || clock.Set() && !now.Equal(clock.Now()) {
			t.Errorf("%v after %v the server says %v", pass, last, now)
		}
		last = now
	}
}
