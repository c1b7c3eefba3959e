package mongolock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock"
)

func TestIndexesAreMade(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	if err := s.Init(t.Context()); err != nil {
		t.Errorf("the second time: %v", err)
	}
	specs, err := coll.Indexes().ListSpecifications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := 5 + 3; len(specs) != want { // of mongo-lock; for sweeps, for queues, and on _id
		t.Errorf("there are %d indexes, want %d", len(specs), want)
	}
	twice := []any{named("r"), named("r")}
	if _, err := coll.InsertMany(t.Context(), twice); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("a second document of a resource: error %v", err)
	}
}

func TestDuplicatesAreListed(t *testing.T) {
	coll := newCollection(t)
	var docs []any
	for i := range 12 {
		docs = append(docs, named(fmt.Sprint("twice ", i)), named(fmt.Sprint("twice ", i)))
	}
	if _, err := coll.InsertMany(t.Context(), append(docs, named("once"))); err != nil {
		t.Fatal(err)
	}
	s := mongolock.New(coll, nil)
	err := s.Init(t.Context())
	if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), `"twice `) ||
		!strings.Contains(err.Error(), "and more") || strings.Contains(err.Error(), "once") {
		t.Errorf("error %v", err)
	}
	closeStore(t, s)
}

func TestIndexThatIsNotUnique(t *testing.T) {
	coll := newCollection(t)
	_, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "resource", Value: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	s := mongolock.New(coll, nil)
	if err := s.Init(t.Context()); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "resource_1") {
		t.Errorf("error %v", err)
	}
	closeStore(t, s)
}

// An index that lets the server delete documents with held locks is refused, whatever
// field it is on.
func TestIndexThatRemoves(t *testing.T) {
	for _, field := range []string{"shared.locks.expiresAt", "exclusive.expiresAt", "exclusive.renewedAt", "shared.locks.createdAt", "waiters.until"} {
		coll := newCollection(t)
		name, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{
			Keys: obj(field, 1), Options: options.Index().SetExpireAfterSeconds(0),
		})
		if err != nil {
			t.Fatal(err)
		}
		s := mongolock.New(coll, nil)
		if err := s.Init(t.Context()); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want ErrUnusable that names the index", field, err)
		}
		closeStore(t, s)
	}
	coll := newCollection(t)
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: obj("seen", 1), Options: options.Index().SetExpireAfterSeconds(0),
	}); err != nil {
		t.Fatal(err)
	}
	newStore(t, coll) // no document has that field
}

// The index that mongo-lock makes is accepted, and so is one that is not sparse.
func TestIndexOfOthers(t *testing.T) {
	coll := newCollection(t)
	_, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys: obj("resource", 1), Options: options.Index().SetUnique(true).SetName("theirs"),
	})
	if err != nil {
		t.Fatal(err)
	}
	newStore(t, coll)
}

// A user who may not create or list indexes is told what to do. The store works for that
// user once the index exists.
func TestNoRightToIndexes(t *testing.T) {
	coll, fail := failing(t)
	for command, says := range map[string]string{"createIndexes": "createIndex({resource: 1}", "listIndexes": "readWrite"} {
		fail(engines.MongoFailure{Command: command, Times: 1, Code: unauthorized})
		s := mongolock.New(coll, nil)
		if err := s.Init(t.Context()); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is refused: %v, want ErrUnusable that says %q", command, err, says)
		}
		closeStore(t, s)
	}
	newStore(t, coll)
	fail(engines.MongoFailure{Command: "createIndexes", Times: 1, Code: unauthorized})
	newStore(t, coll)
}

// A Client refuses to lock as long as the index cannot be created, and locks after the
// cause is fixed.
func TestClientRefusesWithoutIndex(t *testing.T) {
	coll := newCollection(t)
	if _, err := coll.InsertMany(t.Context(), []any{named("r"), named("r")}); err != nil {
		t.Fatal(err)
	}
	s := mongolock.New(coll, nil)
	defer closeStore(t, s)
	c := holdfast.New(s, nil)
	defer c.Close()
	if _, err := c.TryLock(t.Context(), "another", nil); !errors.Is(err, holdfast.ErrUnusable) {
		t.Errorf("error %v, want ErrUnusable", err)
	}
	if n, err := coll.CountDocuments(t.Context(), bson.D{}); err != nil || n != 2 {
		t.Errorf("%d documents (error %v), want the two that were there", n, err)
	}
	if _, err := coll.DeleteOne(t.Context(), named("r")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryLock(t.Context(), "r", nil); err != nil {
		t.Error(err)
	}
}
