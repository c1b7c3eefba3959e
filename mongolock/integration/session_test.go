package mongolock_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/mongolock"
)

// A lock acquired inside a transaction of the caller is not part of the transaction.
func TestOutsideTransactions(t *testing.T) {
	engines.OutsideMongoTransactions(t, newCollection(t), func(ctx context.Context, t *testing.T, coll *mongo.Collection) {
		s := mongolock.New(coll, nil)
		defer closeStore(t, s)
		if err := s.Init(ctx); err != nil {
			t.Fatal(err)
		}
		for name, prepare := range faults.Operations {
			p := prepare(t, s, t.Name()+name)
			if err := p.Do(ctx, s); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			p.Check()
		}
		c := holdfast.New(s, nil)
		defer c.Close()
		h, err := c.Lock(ctx, t.Name(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.TryLock(context.WithoutCancel(t.Context()), t.Name(), nil); err == nil {
			t.Error("another was granted it, too")
		}
		if err := h.Unlock(ctx); err != nil {
			t.Error(err)
		}
	})
}
