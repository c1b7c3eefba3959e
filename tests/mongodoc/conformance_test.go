package mongodoc_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/tests/engines"
)

func (l layout) inRealTime(t *testing.T) *drivertest.Harness {
	return l.harness(newCollection(t))
}

func (l layout) harness(coll *mongo.Collection) *drivertest.Harness {
	return &drivertest.Harness{
		Store:     l.open(coll),
		Reopen:    func(*testing.T) driver.Store { return l.open(coll) },
		Uncounted: l.uncounted,
		Damage: func(t *testing.T, resource string) {
			if _, err := coll.UpdateOne(t.Context(), named(resource), obj("$set", l.damage)); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func (l layout) onSetClock(t *testing.T) *drivertest.Harness {
	coll := newCollection(t)
	c := engines.NewMongoClock(t, coll.Database())
	if !c.Set() {
		t.Skip("the clock of a real server cannot be set")
	}
	h := l.harness(coll)
	h.Now, h.RenewalsUntold = func() time.Time { return c.Now().Truncate(time.Millisecond) }, true
	h.Advance = func(d time.Duration) {
		if err := c.Pass(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	return h
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, l layout) { drivertest.Run(t, l.onSetClock) })
}

func TestConformanceInRealTime(t *testing.T) {
	each(t, func(t *testing.T, l layout) { drivertest.Run(t, l.inRealTime) })
}

func TestConformanceBehindFaults(t *testing.T) {
	each(t, func(t *testing.T, l layout) { drivertest.Run(t, drivertest.WithFaults(l.onSetClock)) })
}
