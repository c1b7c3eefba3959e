package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// untilWaiting waits until the queue of the resource has n places.
func untilWaiting(client *holdfast.Client, resource string, n int) {
	for len(waiting(client, resource)) != n {
		runtime.Gosched()
	}
}

// waiting returns the places in the queue of the resource.
func waiting(client *holdfast.Client, resource string) (places []holdfast.Place) {
	for place, err := range client.Admin().Waiters(context.Background(), holdfast.Filter{Resource: resource}) {
		if err != nil {
			panic(err)
		}
		places = append(places, place)
	}
	return places
}

// Fair waiters are served in turn.
func ExampleLockOptions_fair() {
	ctx := context.Background()
	store := memlock.New(nil)
	ann := holdfast.New(store, nil)
	defer ann.Close()
	hold, err := ann.Lock(ctx, "printer", nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	var printed sync.WaitGroup
	for n, owner := range []string{"bob", "cy", "dan"} {
		client := holdfast.New(store, &holdfast.Options{Owner: owner})
		defer client.Close()
		printed.Go(func() {
			err := client.Do(ctx, "printer", &holdfast.LockOptions{Fair: true}, func(context.Context) error {
				fmt.Println(owner, "prints")
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
		untilWaiting(ann, "printer", n+1)
	}

	if err := hold.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	printed.Wait()
	// Output:
	// bob prints
	// cy prints
	// dan prints
}

// A holder that can stop early does so once another client waits for its lock.
func ExampleHold_Wanted() {
	ctx := context.Background()
	store := memlock.New(nil)
	ann := holdfast.New(store, nil)
	bob := holdfast.New(store, nil)
	defer ann.Close()
	defer bob.Close()

	// The Client learns of waiters when it renews the hold, after a third of the TTL.
	hold, err := ann.Lock(ctx, "backfill", &holdfast.LockOptions{TTL: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	granted := make(chan error)
	go func() {
		_, err := bob.Lock(ctx, "backfill", &holdfast.LockOptions{Fair: true})
		granted <- err
	}()

	<-hold.Wanted() // between batches, use a select with a default
	fmt.Println("another client waits: stop early")
	if err := hold.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("bob gets it, error:", <-granted)
	// Output:
	// another client waits: stop early
	// bob gets it, error: <nil>
}

func ExampleAdmin_Waiters() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := memlock.New(nil)
	ann := holdfast.New(store, nil)
	bob := holdfast.New(store, &holdfast.Options{Owner: "bob", Host: "web-2"})
	defer ann.Close()
	defer bob.Close()
	if _, err := ann.Lock(ctx, "deploy", nil); err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() {
		_, err := bob.Lock(ctx, "deploy", &holdfast.LockOptions{Fair: true})
		ended <- err
	}()
	untilWaiting(ann, "deploy", 1)

	for place, err := range ann.Admin().Waiters(ctx, holdfast.Filter{Resource: "deploy"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s waits for %s: %s, in turn: %v\n", place.Waiter(), place.Resource, place.Mode, place.Fair)
	}

	cancel()
	fmt.Println("bob gave up:", errors.Is(<-ended, context.Canceled))
	untilWaiting(ann, "deploy", 0)
	// Output:
	// bob on web-2 waits for deploy: exclusive, in turn: true
	// bob gave up: true
}

// A refusal names the holders and the waiters that are served first.
func ExampleHeldError() {
	ctx := context.Background()
	store := memlock.New(nil)
	ann := holdfast.New(store, &holdfast.Options{Owner: "ann", Host: "web-1"})
	bob := holdfast.New(store, &holdfast.Options{Owner: "bob", Host: "web-2"})
	defer ann.Close()
	defer bob.Close()
	hold, err := ann.RLock(ctx, "library", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	granted := make(chan error)
	go func() {
		_, err := bob.Lock(ctx, "library", &holdfast.LockOptions{Fair: true})
		granted <- err
	}()
	untilWaiting(ann, "library", 1)

	// Another reader could share the lock with ann, but would overtake bob.
	_, err = ann.TryRLock(ctx, "library", nil)
	if held := new(holdfast.HeldError); errors.As(err, &held) {
		fmt.Println(held)
		fmt.Println("has a place:", held.Position != driver.NoPlace)
		fmt.Println("waiters:", held.Waiters)
		for _, place := range held.Ahead {
			fmt.Println("served before:", place.Waiter())
		}
	}

	if err := hold.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("bob gets it, error:", <-granted)
	// Output:
	// holdfast: "library" is shared by ann on web-1, but bob on web-2 waits for it first
	// has a place: false
	// waiters: 1
	// served before: bob on web-2
	// bob gets it, error: <nil>
}

// A Trace sees each refusal of a waiting Lock, with its position in the queue.
func ExampleTrace_position() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := memlock.New(nil)
	ann := holdfast.New(store, nil)
	defer ann.Close()
	if _, err := ann.Lock(ctx, "deploy", nil); err != nil {
		fmt.Println(err)
		return
	}

	var waits sync.WaitGroup
	for n, owner := range []string{"bob", "cy"} {
		refused := make(chan *holdfast.HeldError, 1)
		client := holdfast.New(store, &holdfast.Options{Trace: &holdfast.Trace{
			AttemptEnd: func(_ context.Context, info holdfast.AttemptInfo) {
				if held := new(holdfast.HeldError); errors.As(info.Err, &held) {
					select {
					case refused <- held:
					default:
					}
				}
			},
		}})
		defer client.Close()
		waits.Go(func() {
			_, err := client.Lock(ctx, "deploy", &holdfast.LockOptions{Fair: true})
			if !errors.Is(err, context.Canceled) {
				fmt.Println(err)
			}
		})
		untilWaiting(ann, "deploy", n+1)
		held := <-refused
		fmt.Printf("%s: %d of %d waiters are served first\n", owner, held.Position, held.Waiters)
	}

	cancel()
	waits.Wait()
	// Output:
	// bob: 0 of 1 waiters are served first
	// cy: 1 of 2 waiters are served first
}
