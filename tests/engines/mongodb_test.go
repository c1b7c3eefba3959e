package engines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
	const askers = 32
	var won, asked sync.Map
	var all sync.WaitGroup
	for i := range askers {
		all.Go(func() {
			me := fmt.Sprint("asker ", i)
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
	if owners != 1 || numbers != askers {
		t.Errorf("%d owners and %d numbers, want 1 and %d", owners, numbers, askers)
	}
}

func TestNowInProjection(t *testing.T) {
	c := locks(t)
	fields := d("_id", 0, "at", 1, "now", "$$NOW", "left", d("$subtract", bson.A{"$end", "$$NOW"}))
	got := modify(t, c, "r", fields, d("$set", d("at", "$$NOW", "end", d("$add", bson.A{"$$NOW", 5000}), "more", 1)))
	if at, now := got["at"].(bson.DateTime), got["now"].(bson.DateTime); at != now {
		t.Errorf("stored %v, projected %v by the same command", at.Time(), now.Time())
	}
	if left := fmt.Sprint(got["left"]); left != "5000" || len(got) != 3 {
		t.Errorf("got %v, want three fields and 5000 left", got)
	}
	var found bson.M
	if err := c.FindOne(t.Context(), bson.D{}, options.FindOne().SetProjection(d("_id", 0, "now", "$$NOW"))).Decode(&found); err != nil {
		t.Fatal(err)
	}
	if _, ok := found["now"].(bson.DateTime); !ok || len(found) != 1 {
		t.Errorf("find: got %v, want only the time", found)
	}
}

// What a caller chose stays what it is, however often it is copied.
func TestLiteralsStayText(t *testing.T) {
	c := locks(t)
	for _, text := range []string{"$owner", "$$NOW", "$$ROOT", "$", "a.$b"} {
		hold := d("$mergeObjects", bson.A{d("$literal", d("owner", text, "of", bson.A{text})), d("since", "$$NOW")})
		modify(t, c, text, nil, d("$set", d("new", hold)), d("$set", d("holds", d("$concatArrays", bson.A{
			d("$filter", d("input", d("$ifNull", bson.A{"$holds", bson.A{}}), "cond", d("$ne", bson.A{"$$this.owner", ""}))),
			bson.A{"$new"},
		}))), d("$unset", "new"))
		// Once more, with what is stored now.
		got := modify(t, c, text, nil, d("$set", d("holds", d("$map", d("input", "$holds", "in", d("$cond", bson.A{true, "$$this", nil}))))))
		hold0 := got["holds"].(bson.A)[0].(bson.D)
		if owner, of := hold0[0].Value, hold0[1].Value.(bson.A)[0]; owner != text || of != text {
			t.Errorf("%q became %q and %q", text, owner, of)
		}
	}
}

// All fields of a $set see the document as it was; a dot leads into a field.
func TestSetStage(t *testing.T) {
	c := locks(t)
	modify(t, c, "r", nil, d("$set", d("a", 1, "in.x", 1, "gone", 1, "list", bson.A{d("k", 1), d("k", 2)})))
	got := modify(t, c, "r", d("_id", 0, "resource", 0), d("$set", d("a", 2, "b", "$a", "in", d("y", 2), "in.z", 3,
		"gone", "$$REMOVE", "list.seen", true, "ks", "$list.k")))
	want := `{"a":2,"in":{"x":1,"y":2,"z":3},"list":[{"k":1,"seen":true},{"k":2,"seen":true}],"b":1,"ks":[1,2]}`
	same(t, "stored", got, want)
}

// same compares a document with JSON.
func same(t *testing.T, what string, got any, want string) {
	t.Helper()
	text, err := bson.MarshalExtJSON(got, false, false)
	if err != nil {
		t.Fatal(err)
	}
	var values [2]any
	for i, text := range []string{string(text), want} {
		if err := json.Unmarshal([]byte(text), &values[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(values[0], values[1]) {
		t.Errorf("%s\ngot  %s\nwant %s", what, text, want)
	}
}

func TestProjections(t *testing.T) {
	c := locks(t)
	modify(t, c, "r", nil, d("$set", d("a", 1, "in", d("x", 1, "y", 2), "list", bson.A{d("k", 1, "v", 1), d("k", 2), 3})),
		d("$set", d("_id", 7)))
	for _, tc := range []struct {
		fields bson.D
		want   string
	}{
		{d("a", 1), `{"_id":7,"a":1}`},
		{d("a", 0, "list", false), `{"_id":7,"resource":"r","in":{"x":1,"y":2}}`},
		{d("_id", 0), `{"resource":"r","a":1,"in":{"x":1,"y":2},"list":[{"k":1,"v":1},{"k":2},3]}`},
		{d("_id", 0, "in.y", 1, "list.k", 1), `{"in":{"y":2},"list":[{"k":1},{"k":2}]}`},
		{d("_id", 0, "in", d("x", 0), "list.k", 0), `{"resource":"r","a":1,"in":{"y":2},"list":[{"v":1},{},3]}`},
		{d("_id", 0, "in.x", 1, "in.z", d("$add", bson.A{"$a", 1})), `{"in":{"x":1,"z":2}}`},
		{d("_id", 0, "list", d("$filter", d("input", "$list", "as", "e", "cond", d("$eq", bson.A{"$$e.k", 2})))), `{"list":[{"k":2}]}`},
		{d("a", 1, "none", "$nothing"), `{"_id":7,"a":1}`},
	} {
		what := fmt.Sprint(tc.fields)
		var found, modified bson.D
		if err := c.FindOne(t.Context(), bson.D{}, options.FindOne().SetProjection(tc.fields)).Decode(&found); err != nil {
			t.Fatal(what, err)
		}
		same(t, "find "+what, found, tc.want)
		err := c.FindOneAndUpdate(t.Context(), bson.D{}, d("$set", d("a", 1)), options.FindOneAndUpdate().SetProjection(tc.fields)).Decode(&modified)
		if err != nil {
			t.Fatal(what, err)
		}
		same(t, "findAndModify "+what, modified, tc.want)
		cursor, err := c.Aggregate(t.Context(), bson.A{d("$match", d("a", 1)), d("$project", tc.fields)})
		if err != nil {
			t.Fatal(what, err)
		}
		var all []bson.D
		if err := cursor.All(t.Context(), &all); err != nil || len(all) != 1 {
			t.Fatal(what, len(all), err)
		}
		same(t, "$project "+what, all[0], tc.want)
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

// change is an event of a change stream.
type change struct {
	Type string `bson:"operationType"`
	Key  struct {
		ID any `bson:"_id"`
	} `bson:"documentKey"`
	Full   bson.M `bson:"fullDocument"`
	Update struct {
		Set bson.M `bson:"updatedFields"`
	} `bson:"updateDescription"`
}

func watch(t *testing.T, c *mongo.Collection, stages bson.A, o *options.ChangeStreamOptionsBuilder) *mongo.ChangeStream {
	t.Helper()
	stream, err := c.Watch(t.Context(), stages, o.SetFullDocument(options.UpdateLookup))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close(context.WithoutCancel(t.Context())) })
	return stream
}

func next(t *testing.T, stream *mongo.ChangeStream) change {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var c change
	if !stream.Next(ctx) {
		t.Errorf("no change came: %v", stream.Err())
	} else if err := stream.Decode(&c); err != nil {
		t.Error(err)
	}
	return c
}

func TestChangeStreamSeesEveryWrite(t *testing.T) {
	c := locks(t)
	stream := watch(t, c, bson.A{}, options.ChangeStream().SetMaxAwaitTime(50*time.Millisecond))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	long := d("$set", d("filler", "a text that makes the document longer than what changes in it"))
	id := modify(t, c, "r", nil, append(take("me"), long)...)["_id"]
	modify(t, c, "r", nil, take("you")...)
	_, err := c.UpdateOne(ctx, d("resource", "r"), d("$set", d("by", "operators")))
	must(err)
	_, err = c.UpdateOne(ctx, d("resource", "r"), d("$set", d("by", "operators"))) // changes nothing
	must(err)
	must(c.FindOneAndUpdate(ctx, d("resource", "r"), d("$inc", d("asked", 1))).Err())
	_, err = c.BulkWrite(ctx, []mongo.WriteModel{mongo.NewUpdateOneModel().SetFilter(d("resource", "r")).SetUpdate(take("me"))})
	must(err)
	must(c.FindOneAndReplace(ctx, d("resource", "r"), d("resource", "r", "asked", 9)).Err())
	must(c.FindOneAndDelete(ctx, d("resource", "r")).Err())

	for i, want := range []struct {
		operation string
		asked     any
	}{{"insert", int32(1)}, {"update", int32(2)}, {"update", nil}, {"update", int32(3)}, {"update", int32(4)}, {"replace", int32(9)}, {"delete", nil}} {
		got := next(t, stream)
		if got.Type != want.operation || got.Key.ID != id {
			t.Errorf("change %d: %s of %v, want %s of %v", i, got.Type, got.Key.ID, want.operation, id)
		}
		asked := got.Update.Set["asked"]
		if asked == nil && want.operation != "update" {
			asked = got.Full["asked"] // that of an update is looked up, and later
		}
		if asked != want.asked {
			t.Errorf("change %d, %s: asked is %v, want %v", i, got.Type, asked, want.asked)
		}
	}
	if stream.TryNext(ctx) {
		t.Errorf("one change too many: %v", stream.Current)
	}
}

func TestChangeStreamShowsTheDocumentOfAnUpdate(t *testing.T) {
	c := locks(t)
	modify(t, c, "r", nil, append(take("me"), d("$set", d("filler", "a text that makes the document longer than what changes in it")))...)
	stream := watch(t, c, bson.A{d("$match", d("operationType", d("$in", bson.A{"update", "replace", "delete"})))}, options.ChangeStream())
	modify(t, c, "r", nil, take("you")...)
	if got := next(t, stream); got.Type != "update" || got.Full["resource"] != "r" || fmt.Sprint(got.Full["asked"]) != "2" {
		t.Errorf("got %+v, want the updated document", got)
	}
	// What nobody asked for is not shown, and a stream resumes after what was read.
	token := stream.ResumeToken()
	modify(t, c, "another", nil, take("me")...)
	modify(t, c, "r", nil, take("me")...)
	resumed := watch(t, c, bson.A{d("$match", d("operationType", "update"))}, options.ChangeStream().SetResumeAfter(token))
	if got := next(t, resumed); fmt.Sprint(got.Full["asked"]) != "3" {
		t.Errorf("resumed at %+v, want the third", got)
	}
}

// A stream that waits does not keep others waiting, and learns of a change when
// it happens.
func TestChangeStreamsWait(t *testing.T) {
	c := locks(t)
	const streams = 8
	var all sync.WaitGroup
	for range streams {
		stream := watch(t, c, bson.A{}, options.ChangeStream().SetMaxAwaitTime(20*time.Second))
		all.Go(func() {
			if got := next(t, stream); got.Type != "insert" {
				t.Errorf("got %+v, want the insert", got)
			}
		})
	}
	modify(t, c, "r", nil, take("me")...)
	all.Wait()
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

func TestRestart(t *testing.T) {
	s := engines.NewMongoServer(t)
	client, err := mongo.Connect(options.Client().ApplyURI(s.URL).SetServerSelectionTimeout(200 * time.Millisecond))
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
