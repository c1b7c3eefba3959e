package mongodoc_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

// collection returns the collection in which old programs lock.
func collection() *mongo.Collection {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://localhost:27017"))
	if err != nil {
		log.Fatal(err)
	}
	return client.Database("app").Collection("locks")
}

// Old programs insert and remove {_id, lockedAt}; a TTL index removes what they leave
// behind. Holdfast uses its timeout.
func ExampleNewTTL() {
	client := holdfast.New(mongodoc.NewTTL(collection(), nil), nil)
	defer client.Close()

	err := client.Do(context.Background(), "nightly-report", nil, func(context.Context) error {
		fmt.Println("neither an old program nor another client runs this now")
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}

// Old programs set locked, and take over a resource that has been locked for a minute.
func ExampleNewFlag() {
	store := mongodoc.NewFlag(collection(), &mongodoc.FlagOptions{Timeout: time.Minute})
	client := holdfast.New(store, nil)
	defer client.Close()

	hold, err := client.TryLock(context.Background(), "nightly-report", nil)
	if err != nil {
		log.Print(err) // a *holdfast.HeldError if an old program is at it
		return
	}
	fmt.Println("locked: true")
	if err := hold.Unlock(context.Background()); err != nil {
		log.Print(err)
	}
}

// Old programs use distributed-locks-mongodb. The lock ID is their lock value.
func ExampleNewValue() {
	ctx := context.Background()
	client := holdfast.New(mongodoc.NewValue(collection()), nil)
	defer client.Close()

	for status, err := range client.Admin().Holds(ctx, holdfast.Filter{}) {
		if err != nil {
			log.Print(err)
			return
		}
		fmt.Println(status.Resource, "is held by", status.LockID, "for", status.Left)
	}
}

// An operator ends a hold that an old program does not release.
func ExampleStore() {
	ctx := context.Background()
	client := holdfast.New(mongodoc.NewTTL(collection(), nil), nil)
	defer client.Close()

	ended, err := client.Admin().ForceRelease(ctx, "nightly-report", holdfast.HoldID{})
	if err != nil {
		log.Print(err)
	}
	for _, status := range ended {
		if status.LockID == mongodoc.OldLockID {
			fmt.Println("an old program was still at it")
		}
	}
}
