package mongolock_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

// Every query for holds uses an index, with or without a filter.
func TestQueriesUseIndexes(t *testing.T) {
	if engines.MongoDB(t).Emulated {
		t.Skip("the emulator has no explain: set HOLDFAST_TEST_MONGODB_URL")
	}
	coll, commands := sent.Through(t, newCollection(t))
	s := newStore(t, coll)
	finds := func(do func()) []bson.Raw {
		return slices.DeleteFunc(commands.By(do), func(command bson.Raw) bool { return sent.Name(command) != "find" })
	}
	ask.Granted(t, s, ask.Request("r", "a"))
	ask.Granted(t, s, ask.Shared(ask.Request("q", "a"), 0))
	now := time.Now()
	for name, f := range map[string]driver.Filter{
		"all":               {},
		"a resource":        {Resource: "r"},
		"a lock ID":         {LockID: "a"},
		"an owner":          {Owner: "ann"},
		"the time":          {CreatedAfter: now.Add(-time.Hour), CreatedBefore: now.Add(time.Hour)},
		"what is left":      {LeftBelow: time.Hour},
		"all of the filter": {Resource: "r", LockID: "a", Owner: "ann", CreatedAfter: now.Add(-time.Hour), Expired: true},
	} {
		t.Run(name, func(t *testing.T) {
			explained(t, coll.Database().Name(), finds(func() {
				for _, err := range s.List(t.Context(), f) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}))
		})
	}
	waits(t, s, at(ask.Request("r", "b"), 1))
	for name, f := range map[string]driver.Filter{"all waiters": {}, "waiters of a resource": {Resource: "r"}, "waiters of a lock ID": {LockID: "b"}} {
		t.Run(name, func(t *testing.T) {
			explained(t, coll.Database().Name(), finds(func() {
				for _, err := range s.Waiters(t.Context(), f) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}))
		})
	}
	t.Run("what to sweep", func(t *testing.T) {
		swept := finds(func() {
			if _, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil {
				t.Fatal(err)
			}
		})
		for _, what := range []string{"expiresAt", "touched"} { // finds expired documents, finds idle ones
			var due []bson.Raw
			for _, find := range swept {
				if strings.Contains(find.Lookup("filter").String(), what) {
					due = append(due, find)
				}
			}
			explained(t, coll.Database().Name(), due)
		}
	})
}

// explained asks the server for the plans of the queries.
func explained(t *testing.T, database string, finds []bson.Raw) {
	t.Helper()
	if len(finds) != 1 {
		t.Fatalf("%d queries were sent, want 1", len(finds))
	}
	var query bson.D
	for _, key := range []string{"find", "filter", "projection", "collation"} {
		if v := finds[0].Lookup(key); v.Type != 0 {
			query = append(query, bson.E{Key: key, Value: v})
		}
	}
	plan, err := engines.MongoDatabase(t).Client().Database(database).
		RunCommand(t.Context(), obj("explain", query, "verbosity", "queryPlanner")).Raw()
	if err != nil {
		t.Fatal(err)
	}
	if text := plan.Lookup("queryPlanner").String(); strings.Contains(text, "COLLSCAN") || !strings.Contains(text, "IXSCAN") {
		t.Errorf("the collection is scanned: %s", text)
	}
}
