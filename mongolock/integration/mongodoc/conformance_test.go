package mongodoc_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/portable"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

func (l layout) inRealTime(t *testing.T) *drivertest.Harness {
	coll := newCollection(t)
	return l.harness(coll, coll)
}

// harness opens stores in one collection, and checks the data by another connection.
func (l layout) harness(coll, near *mongo.Collection) *drivertest.Harness {
	return &drivertest.Harness{
		Store:     l.open(coll),
		Reopen:    func(*testing.T) driver.Store { return l.open(coll) },
		Uncounted: l.uncounted,
		Damage: func(t *testing.T, resource string) {
			if _, err := near.UpdateOne(t.Context(), named(resource), obj("$set", l.damage)); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func (l layout) onSetClock(t *testing.T) *drivertest.Harness {
	near := newCollection(t)
	return withSetClock(t, l.harness(engines.MongoThrough(t, near, portable.Client(t)), near), near)
}

func (l layout) behindNetwork(t *testing.T, n *proxy.Network) *drivertest.Harness {
	near := newCollection(t)
	return withSetClock(t, l.harness(engines.MongoBehind(t, near, n), near), near)
}

// withSetClock stops the clock of the database until the test moves it.
func withSetClock(t *testing.T, h *drivertest.Harness, coll *mongo.Collection) *drivertest.Harness {
	h.RenewalsUntold = true
	return engines.NewMongoClock(t, coll.Database()).Drive(t, h)
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, l layout) { drivertest.Run(t, l.onSetClock) })
}

func TestConformanceInRealTime(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		thorough.Test(t, "the conformance suite once more: without a clock that is set")
		drivertest.Run(t, l.inRealTime)
	})
}

func TestConformanceBehindFaults(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		thorough.Test(t, "the conformance suite once more: with replies lost")
		drivertest.Run(t, drivertest.WithFaults(l.onSetClock))
	})
}

// Connections are cut now and then, before or after the server has acted.
func TestConformanceBehindNetwork(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		thorough.Test(t, "the conformance suite once more: on a bad network")
		drivertest.Run(t, proxy.Disturbed(3, l.behindNetwork))
	})
}
