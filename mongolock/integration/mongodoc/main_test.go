// Package mongodoc_test holds the tests of package mongodoc that need a server.
package mongodoc_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

func TestMain(m *testing.M) { engines.Main(m) }

// layout is one of the three layouts.
type layout struct {
	name string
	open func(*mongo.Collection) *mongodoc.Store
	// damage makes a document undecodable.
	damage bson.D
	// uncounted, see drivertest.Harness.
	uncounted bool
}

var layouts = []layout{
	{"TTL", newTTL, obj("lockedAt", "nonsense"), true},
	{"flag", newFlag, obj("lockedAt", "nonsense"), true},
	{"value", mongodoc.NewValue, obj("obtained_at", "nonsense"), false},
}

func newTTL(coll *mongo.Collection) *mongodoc.Store {
	return mongodoc.NewTTL(coll, &mongodoc.TTLOptions{MakeIndex: true})
}

func newFlag(coll *mongo.Collection) *mongodoc.Store { return mongodoc.NewFlag(coll, nil) }

// follows fails the test unless the second hold has a higher token. If a release deletes
// the document, the token is that of the clock, and may be the same within a millisecond.
func (l layout) follows(t *testing.T, second, first driver.HoldRef) {
	t.Helper()
	if second.Token < first.Token || l.name == "flag" && second.Token == first.Token {
		t.Errorf("token %d follows %d", second.Token, first.Token)
	}
}

// each runs a test for each layout, in parallel.
func each(t *testing.T, test func(t *testing.T, l layout)) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

// newCollection returns an empty collection, in a database of its own.
func newCollection(t testing.TB) *mongo.Collection {
	t.Helper()
	return engines.MongoDatabase(t).Collection("locks")
}

func start(t testing.TB, s *mongodoc.Store) *mongodoc.Store {
	t.Helper()
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// obj makes a document of pairs of key and value.
var obj = mongokit.Obj

func named(resource string) bson.D { return obj("_id", resource) }

// raw returns the document of a resource, or nil.
func raw(t testing.TB, coll *mongo.Collection, resource string) bson.Raw {
	t.Helper()
	doc, err := coll.FindOne(t.Context(), named(resource)).Raw()
	if err == mongo.ErrNoDocuments { //nolint:errorlint // as the driver documents it
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
