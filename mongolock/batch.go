package mongolock

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// look reads the documents of resources.
func (s *Store) look(ctx context.Context, resources []string) (map[string]mongokit.Found, error) {
	docs := make(map[string]mongokit.Found, len(resources))
	for d, err := range s.scan(ctx, obj(resourceField, obj("$in", resources))) {
		if err != nil && d.record.Resource == "" {
			return nil, err
		}
		docs[d.record.Resource] = mongokit.Found{Record: d.record, Now: d.now, Err: err}
	}
	return docs, nil
}

// together is how many holds of one document a statement renews or releases. Names of
// driver.MaxName bytes, and what the statement keeps for each hold, then take far less
// than 16 MB, the largest document.
const together = 1000

func (s *Store) batch() *mongokit.Batch {
	return &mongokit.Batch{
		Collection: s.coll,
		Look:       s.look,
		Renewal:    renewal,
		Ending:     ending,
		Together:   together,
	}
}

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	return s.batch().Renew(ctx, qs)
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return s.batch().Release(ctx, qs)
}

// on returns the write of a statement about one resource.
func on(s statement, resource string, ask bson.D) mongo.WriteModel {
	return mongo.NewUpdateOneModel().SetFilter(named(resource)).SetUpdate(s.Of(ask)).SetCollation(exactly)
}
