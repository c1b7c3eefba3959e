package mongolock

import (
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func inRealTime(t *testing.T) *drivertest.Harness {
	return harness(newCollection(t, connect(t, nil)))
}

func harness(coll *mongo.Collection) *drivertest.Harness {
	return &drivertest.Harness{
		Store:  New(coll, nil),
		Reopen: func(*testing.T) driver.Store { return New(coll, nil) },
		Damage: func(t *testing.T, resource string) {
			if _, err := coll.UpdateOne(t.Context(), obj("resource", resource),
				obj("$set", obj("exclusive.expiresAt", "nonsense"))); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// onSetClock opens stores in a database whose clock stands still until it is
// moved, which the emulator has. It moves in whole milliseconds.
func onSetClock(t *testing.T) *drivertest.Harness {
	coll := newCollection(t, connect(t, nil))
	c := &setClock{t: t, db: coll.Database(), now: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)}
	if err := c.set(); err != nil {
		t.Skip("the server's clock cannot be set: ", err)
	}
	h := harness(coll)
	h.Now, h.Advance, h.Untold = c.time, c.advance, true
	return h
}

type setClock struct {
	t   *testing.T
	db  *mongo.Database
	mu  sync.Mutex
	now time.Time
}

func (c *setClock) set() error {
	return c.db.RunCommand(c.t.Context(), obj("holdfastClock", 1, "now", bson.NewDateTimeFromTime(c.now))).Err()
}

// time is the server's, in whole milliseconds.
func (c *setClock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Truncate(time.Millisecond)
}

func (c *setClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	if err := c.set(); err != nil {
		c.t.Error(err)
	}
}

func TestConformance(t *testing.T)             { drivertest.Run(t, onSetClock) }
func TestConformanceInRealTime(t *testing.T)   { drivertest.Run(t, inRealTime) }
func TestConformanceBehindFaults(t *testing.T) { drivertest.Run(t, drivertest.WithFaults(onSetClock)) }
