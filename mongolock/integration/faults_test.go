package mongolock_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/mongolock"
)

// behind returns the collection through the network. Its client leaves no connection
// open.
func behind(t testing.TB, n *proxy.Network, coll *mongo.Collection) *mongo.Collection {
	t.Helper()
	t.Cleanup(func() { ask.Until(t, "all connections are closed", n.Idle) })
	return engines.MongoBehind(t, coll, n)
}

func TestFaults(t *testing.T) {
	thorough.Test(t, "waits for many time-outs")
	faults.Run(t, func(t *testing.T) *faults.Place {
		coll, n := newCollection(t), proxy.New(t)
		return &faults.Place{
			Network: n,
			Near: func(t *testing.T) driver.Store {
				return mongolock.New(engines.MongoThrough(t, coll, options.Client()), nil)
			},
			Far: func(t *testing.T) driver.Store { return mongolock.New(behind(t, n, coll), nil) },
		}
	})
}

// patience is how long a call without an answer may take.
const patience = 300 * time.Millisecond
