package dropin_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/lab/engines"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

// A lock acquired inside a transaction of the caller is not part of the transaction.
func TestOutsideTransactions(t *testing.T) {
	engines.OutsideMongoTransactions(t, newFixture(t).coll, func(ctx context.Context, t *testing.T, coll *mongo.Collection) {
		c := lock.NewClient(coll)
		if err := c.CreateIndexes(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.XLock(ctx, "x", t.Name(), lock.LockDetails{TTL: 100}); err != nil {
			t.Error(err)
		}
		if err := c.SLock(ctx, "s", t.Name(), lock.LockDetails{TTL: 100}, 1); err != nil {
			t.Error(err)
		}
		want(t, must[[]lock.LockStatus](t)(c.Renew(ctx, t.Name(), 100)), "s/"+t.Name(), "x/"+t.Name())
		want(t, must[[]lock.LockStatus](t)(c.Status(ctx, lock.Filter{Resource: "x"})), "x/"+t.Name())
		want(t, must[[]lock.LockStatus](t)(lock.NewPurger(c).Purge(ctx)))
		want(t, must[[]lock.LockStatus](t)(c.Unlock(ctx, t.Name())), "s/"+t.Name(), "x/"+t.Name())
	})
}
