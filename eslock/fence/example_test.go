package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/eslock/fence"
	"github.com/holdfast-go/holdfast/memlock"
)

// One program at a time settles an account. One of them is stopped for longer than its
// lock lives; its later writes are refused.
func Example() {
	ctx := context.Background()
	es := newServer() // an official client of Elasticsearch or OpenSearch
	account := fence.Document{Client: es, Index: "accounts", ID: "17"}
	client := holdfast.New(memlock.New(nil), nil) // the locks may be anywhere
	defer client.Close()

	settle := func(balance int, pause func()) error {
		hold, err := client.Lock(ctx, "account-17", nil)
		if err != nil {
			return err
		}
		defer func() {
			if err := hold.Unlock(ctx); err != nil && !errors.Is(err, holdfast.ErrLost) {
				log.Print(err)
			}
		}()
		// Before it is read: what others send late does not count any more.
		if err := account.Claim(ctx, hold.Token()); err != nil && !errors.Is(err, fence.ErrNotFound) {
			return err
		}
		pause()
		return account.Put(ctx, map[string]any{"balance": balance}, hold.Token())
	}

	err := settle(100, func() {
		// It hangs, and somebody takes its lock away.
		for status, err := range client.Admin().Holds(ctx, holdfast.Filter{Resource: "account-17"}) {
			if err == nil {
				_, err = client.Admin().ForceRelease(ctx, status.Resource, status.HoldID)
			}
			if err != nil {
				log.Print(err)
			}
		}
		fmt.Println("successor:", settle(200, func() {}))
	})
	fmt.Println("stale:", errors.Is(err, holdfast.ErrStale))
	fmt.Println("balance:", es.get("17")["balance"])
	// Output:
	// successor: <nil>
	// stale: true
	// balance: 200
}
