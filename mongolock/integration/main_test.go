// Package mongolock_test holds the tests of package mongolock that need a server.
package mongolock_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock"
)

func TestMain(m *testing.M) { engines.Main(m) }

// newCollection returns an empty collection, in a database of its own.
func newCollection(t testing.TB) *mongo.Collection {
	t.Helper()
	return engines.MongoDatabase(t).Collection("locks")
}

// newStore returns a store after Init, which is closed at the end of the test.
func newStore(t testing.TB, coll *mongo.Collection) *mongolock.Store {
	t.Helper()
	return newStoreWith(t, coll, nil)
}

func newStoreWith(t testing.TB, coll *mongo.Collection, opts *mongolock.Options) *mongolock.Store {
	t.Helper()
	s := mongolock.New(coll, opts)
	t.Cleanup(func() { closeStore(t, s) })
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s driver.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// obj makes a document of pairs of key and value.
var obj = mongokit.Obj

func named(resource string) bson.D { return obj("resource", resource) }

// nobody is the exclusive lock of a resource without a holder.
var nobody = obj(
	"_id", nil, "lockId", nil, "owner", nil, "host", nil, "comment", nil,
	"createdAt", nil, "renewedAt", nil, "expiresAt", nil, "acquired", false,
)

// raw returns the document of a resource.
func raw(t testing.TB, coll *mongo.Collection, resource string) bson.Raw {
	t.Helper()
	doc, err := coll.FindOne(t.Context(), named(resource)).Raw()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
