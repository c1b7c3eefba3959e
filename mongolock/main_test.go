package mongolock

import (
	"context"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const urlEnv = "HOLDFAST_TEST_MONGODB_URL"

// connect returns a client of the server under test.
func connect(t testing.TB, monitor *event.CommandMonitor) *mongo.Client {
	t.Helper()
	url := os.Getenv(urlEnv)
	if url == "" {
		t.Skip(urlEnv + " does not name a MongoDB server")
	}
	client, err := mongo.Connect(options.Client().ApplyURI(url).SetMonitor(monitor))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return client
}

// newCollection is empty, in a database of its own, and dropped in the end.
func newCollection(t testing.TB, client *mongo.Client) *mongo.Collection {
	t.Helper()
	db := client.Database("holdfast_test_" + bson.NewObjectID().Hex())
	t.Cleanup(func() {
		if err := db.Drop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("dropping the test's database: %v", err)
		}
	})
	return db.Collection("locks")
}

func newStore(t testing.TB, coll *mongo.Collection) *Store {
	t.Helper()
	s := New(coll, nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func request(resource, lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: time.Hour}
}

func shared(q driver.AcquireRequest, limit int) driver.AcquireRequest {
	q.Mode, q.Limit = driver.Shared, limit
	return q
}

func mustAcquire(t testing.TB, s driver.Store, q driver.AcquireRequest) driver.HoldRef {
	t.Helper()
	g, err := s.Acquire(t.Context(), q)
	if err != nil {
		t.Fatalf("acquire of %q by %q: %v", q.Resource, q.LockID, err)
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
}
