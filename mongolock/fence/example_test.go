package fence_test

import (
	"context"
	"errors"
	"log"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/mongolock/fence"
)

// An account is settled by one program at a time. Should one of them be stopped
// for longer than its lock lives, what it sends later is refused.
func Example() {
	var (
		ctx      context.Context
		client   *holdfast.Client
		accounts *mongo.Collection
	)
	hold, err := client.Lock(ctx, "account-17", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)

	// Before it is read: what others send late does not count any more.
	account := bson.D{{Key: "_id", Value: 17}}
	if err := fence.Claim(hold.Context(), accounts, account, hold.Token()); err != nil {
		log.Fatal(err)
	}
	var is struct{ Balance, Due int64 }
	if err := accounts.FindOne(hold.Context(), account).Decode(&is); err != nil {
		log.Fatal(err)
	}
	settle := bson.D{{Key: "$set", Value: bson.D{{Key: "balance", Value: is.Balance - is.Due}, {Key: "due", Value: 0}}}}
	_, err = fence.UpdateOne(hold.Context(), accounts, account, settle, hold.Token())
	if errors.Is(err, holdfast.ErrStale) {
		log.Fatal("somebody else settles this account by now")
	}
}
