package mongodoc_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
)

// A lock acquired inside a transaction of the caller is not part of the transaction.
func TestOutsideTransactions(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		engines.OutsideMongoTransactions(t, newCollection(t), func(ctx context.Context, t *testing.T, coll *mongo.Collection) {
			s := l.open(coll)
			if err := s.Init(ctx); err != nil {
				t.Fatal(err)
			}
			for name, prepare := range faults.Operations {
				if name == "shared acquire" || name == "watch" {
					continue // there are none
				}
				p := prepare(t, s, t.Name()+name)
				if err := p.Do(ctx, s); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				p.Check()
			}
		})
	})
}
