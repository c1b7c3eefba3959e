package mongolock_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/portable"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/mongolock"
)

func inRealTime(t *testing.T) *drivertest.Harness {
	coll := newCollection(t)
	return harness(coll, coll)
}

// harness opens stores in one collection, and checks the data by another connection.
func harness(coll, near *mongo.Collection) *drivertest.Harness {
	return &drivertest.Harness{
		Store:  mongolock.New(coll, nil),
		Reopen: func(*testing.T) driver.Store { return mongolock.New(coll, nil) },
		Damage: func(t *testing.T, resource string) {
			if _, err := near.UpdateOne(t.Context(), named(resource),
				obj("$set", obj("exclusive.expiresAt", "nonsense"))); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func onSetClock(t *testing.T) *drivertest.Harness {
	near := newCollection(t)
	return withSetClock(t, harness(engines.MongoThrough(t, near, portable.Client(t)), near), near)
}

func behindNetwork(t *testing.T, n *proxy.Network) *drivertest.Harness {
	near := newCollection(t)
	h := harness(behind(t, n, near), near)
	// The driver continues its change streams where they were cut.
	h.Beside = func(*testing.T) driver.Store { return mongolock.New(near, nil) }
	return withSetClock(t, h, near)
}

// withSetClock stops the clock of the database until the test moves it.
func withSetClock(t *testing.T, h *drivertest.Harness, coll *mongo.Collection) *drivertest.Harness {
	h.RenewalsUntold = true
	return engines.NewMongoClock(t, coll.Database()).Drive(t, h)
}

func TestConformance(t *testing.T) { drivertest.Run(t, onSetClock) }
func TestConformanceInRealTime(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: without a clock that is set")
	drivertest.Run(t, inRealTime)
}
func TestConformanceBehindFaults(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: with replies lost")
	drivertest.Run(t, drivertest.WithFaults(onSetClock))
}

// Connections are cut now and then, before or after the server has acted.
func TestConformanceBehindNetwork(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: on a bad network")
	drivertest.Run(t, proxy.Disturbed(3, behindNetwork))
}
