package mongodoc

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// URLs of package mongolock can name the layouts.
func init() {
	for name, open := range map[string]func(coll *mongo.Collection, timeout time.Duration) *Store{
		"ttl":  func(coll *mongo.Collection, d time.Duration) *Store { return NewTTL(coll, &TTLOptions{Timeout: d}) },
		"flag": func(coll *mongo.Collection, d time.Duration) *Store { return NewFlag(coll, &FlagOptions{Timeout: d}) },
	} {
		mongokit.RegisterLayout(name, mongokit.Layout{
			Parameters: []string{"timeout"},
			Open: func(coll *mongo.Collection, parameters map[string]string) (driver.Store, error) {
				var timeout time.Duration
				if text, ok := parameters["timeout"]; ok {
					var err error
					if timeout, err = time.ParseDuration(text); err != nil || timeout <= 0 {
						return nil, fmt.Errorf("%w: mongodb URL: parameter \"timeout\" is not a duration such as 30s", driver.ErrInvalid)
					}
				}
				return owning(coll, open(coll, timeout)), nil
			},
		})
	}
	mongokit.RegisterLayout("value", mongokit.Layout{
		Open: func(coll *mongo.Collection, _ map[string]string) (driver.Store, error) {
			return owning(coll, NewValue(coll)), nil
		},
	})
}

// owning lets Close disconnect the collection's client.
func owning(coll *mongo.Collection, s *Store) *Store {
	s.client = coll.Database().Client()
	return s
}
