package engines_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

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
			asked = got.Full["asked"] // an update looks up the document later
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
	// A stream shows only what it was asked for, and resumes after its last event.
	token := stream.ResumeToken()
	modify(t, c, "another", nil, take("me")...)
	modify(t, c, "r", nil, take("me")...)
	resumed := watch(t, c, bson.A{d("$match", d("operationType", "update"))}, options.ChangeStream().SetResumeAfter(token))
	if got := next(t, resumed); fmt.Sprint(got.Full["asked"]) != "3" {
		t.Errorf("resumed at %+v, want the third", got)
	}
}

// A waiting stream does not block other commands, and gets a change when it happens.
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
