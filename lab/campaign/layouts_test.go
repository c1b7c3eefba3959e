//go:build unix

package campaign_test

import (
	"context"
	"errors"
	"net/url"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

// The layouts of other programs have no URLs. In this test they have URLs of MongoDB, with
// their names as the scheme.
func init() {
	for scheme, layout := range map[string]func(*mongo.Collection) *mongodoc.Store{
		"mongodoc-flag": func(c *mongo.Collection) *mongodoc.Store { return mongodoc.NewFlag(c, nil) },
		"mongodoc-ttl": func(c *mongo.Collection) *mongodoc.Store {
			return mongodoc.NewTTL(c, &mongodoc.TTLOptions{MakeIndex: true})
		},
		"mongodoc-value": mongodoc.NewValue,
	} {
		driver.Register(scheme, func(_ context.Context, u *url.URL) (driver.Store, error) {
			server := *u
			server.Scheme = "mongodb"
			client, err := mongo.Connect(options.Client().ApplyURI(server.String()))
			if err != nil {
				return nil, err
			}
			return laidOut{layout(client.Database("campaign").Collection("locks")), client}, nil
		})
	}
}

// laidOut is a store with a client of its own.
type laidOut struct {
	*mongodoc.Store
	client *mongo.Client
}

func (s laidOut) Close() error {
	return errors.Join(s.Store.Close(), s.client.Disconnect(context.Background()))
}
