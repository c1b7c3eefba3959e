package mongodoc

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// URLs of package mongolock can name these layouts.
func init() {
	register("ttl", true, func(coll *mongo.Collection, timeout time.Duration) *Store {
		return NewTTL(coll, &TTLOptions{Timeout: timeout})
	})
	register("flag", true, func(coll *mongo.Collection, timeout time.Duration) *Store {
		return NewFlag(coll, &FlagOptions{Timeout: timeout})
	})
	register("value", false, func(coll *mongo.Collection, _ time.Duration) *Store { return NewValue(coll) })
}

// register registers a layout. Its stores own the client of their collection.
func register(name string, timeout bool, open func(*mongo.Collection, time.Duration) *Store) {
	mongokit.Layouts[name] = mongokit.Layout{
		Timeout: timeout,
		Open: func(coll *mongo.Collection, timeout time.Duration) driver.Store {
			s := open(coll, timeout)
			s.coll.Own()
			return s
		},
	}
}
