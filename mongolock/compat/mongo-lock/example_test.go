package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

// collection connects to a server.
func collection() *mongo.Collection {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://localhost:27017"))
	if err != nil {
		log.Fatal(err)
	}
	return client.Database("app").Collection("locks")
}

// The import is all that changes in code that uses mongo-lock with mongo-driver v2.
func Example() {
	ctx := context.Background()
	c := lock.NewClient(collection())

	err := c.XLock(ctx, "invoices/2026", "nightly-run-17", lock.LockDetails{Owner: "billing", TTL: 60})
	if errors.Is(err, lock.ErrAlreadyLocked) {
		fmt.Println("another run is at work")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if _, err := c.Unlock(ctx, "nightly-run-17"); err != nil {
			log.Print(err)
		}
	}()
	fmt.Println("at work")
}

// What must not work with half of its resources takes them by one lockId, and
// gives all back at once.
func Example_many() {
	ctx := context.Background()
	c := lock.NewClient(collection())
	const lockID = "move-4711"
	for _, account := range []string{"account/7", "account/9"} {
		if err := c.XLock(ctx, account, lockID, lock.LockDetails{TTL: 30}); err != nil {
			fmt.Println("not now:", err)
			break
		}
	}
	unlocked, err := c.Unlock(ctx, lockID)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range unlocked {
		fmt.Println("unlocked", l.Resource)
	}
}

// At most five at a time.
func ExampleClient_SLock() {
	c := lock.NewClient(collection())
	err := c.SLock(context.Background(), "license", "worker-3", lock.LockDetails{TTL: 600}, 5)
	if errors.Is(err, lock.ErrAlreadyLocked) {
		fmt.Println("all five are taken")
	}
}

// A lock that is not renewed in time is not one's own any more.
func ExampleClient_Renew() {
	ctx := context.Background()
	c := lock.NewClient(collection())
	for {
		time.Sleep(10 * time.Second)
		if _, err := c.Renew(ctx, "nightly-run-17", 60); err != nil {
			fmt.Println("stop working:", err)
			return
		}
	}
}

// What will end within a minute.
func ExampleClient_Status() {
	c := lock.NewClient(collection())
	statuses, err := c.Status(context.Background(), lock.Filter{Owner: "billing", TTLlt: 60})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range statuses {
		fmt.Println(s.Resource, s.LockId, s.Type, s.TTL)
	}
}

// Programs with mongo-lock need somebody who purges.
func ExampleNewPurger() {
	purger := lock.NewPurger(lock.NewClient(collection()))
	for range time.Tick(time.Minute) {
		purged, err := purger.Purge(context.Background())
		if err != nil {
			log.Print(err)
		}
		for _, l := range purged {
			log.Printf("%s of %s has expired", l.Resource, l.LockId)
		}
	}
}

// The first use makes the index on resource; a program can find out earlier that it
// cannot be made.
func ExampleClient_CreateIndexes() {
	if err := lock.NewClient(collection()).CreateIndexes(context.Background()); err != nil {
		log.Fatal(err)
	}
}
