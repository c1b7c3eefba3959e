package fence_test

import (
	"context"
	"errors"
	"log"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/mongolock/fence"
)

// One program at a time settles an account. If it is stopped for longer than its lock
// lives, its later writes are refused.
func Example() {
	var (
		client   *holdfast.Client
		accounts *mongo.Collection
	)
	settle := func(ctx context.Context) error {
		hold, err := client.Lock(ctx, "account-17", nil)
		if err != nil {
			return err
		}
		defer func() {
			if err := hold.Unlock(ctx); err != nil {
				log.Print(err)
			}
		}()
		ctx = hold.Context() // ends when the lock is lost

		// Before it is read: what others send late does not count any more.
		account := bson.D{{Key: "_id", Value: 17}}
		if err := fence.Claim(ctx, accounts, account, hold.Token()); err != nil {
			return err
		}
		var is struct{ Balance, Due int64 }
		primary := accounts.Clone(options.Collection().SetReadPreference(readpref.Primary()))
		if err := primary.FindOne(ctx, account).Decode(&is); err != nil {
			return err
		}
		settled := bson.D{{Key: "$set", Value: bson.D{{Key: "balance", Value: is.Balance - is.Due}, {Key: "due", Value: 0}}}}
		_, err = fence.UpdateOne(ctx, accounts, account, settled, hold.Token())
		return err
	}
	if err := settle(context.Background()); errors.Is(err, holdfast.ErrStale) {
		log.Print("somebody else settles this account by now")
	}
}
