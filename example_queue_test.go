package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// untilWaiting waits until so many have a place in the queue of the resource.
func untilWaiting(client *holdfast.Client, resource string, n int) {
	for len(waiting(client, resource)) != n {
		runtime.Gosched()
	}
}

// waiting returns those in the queue of the resource.
func waiting(client *holdfast.Client, resource string) (places []holdfast.Place) {
	for place, err := range client.Waiters(context.Background(), holdfast.Filter{Resource: resource}) {
		if err != nil {
			panic(err)
		}
		places = append(places, place)
	}
	return places
}

// Who waits with Fair is served in turn.
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

// A job that can stop early does so once somebody waits for its lock.
func ExampleHoldOf() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	// Fair: nobody who comes later is served before.
	fair := &holdfast.LockOptions{Fair: true}
	err := client.Do(ctx, "backfill", fair, func(ctx context.Context) error {
		wanted := holdfast.HoldOf(ctx).Wanted()
		for batch := range 3 {
			select {
			case <-wanted: // somebody waits: let it in, and go on later
				return nil
			default:
			}
			fmt.Println("batch", batch)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// batch 0
	// batch 1
	// batch 2
}

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

	<-hold.Wanted()
	fmt.Println("somebody waits: stop early")
	if err := hold.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("bob gets it, error:", <-granted)
	// Output:
	// somebody waits: stop early
	// bob gets it, error: <nil>
}

func ExampleClient_Waiters() {
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

	for place, err := range ann.Waiters(ctx, holdfast.Filter{Resource: "deploy"}) {
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

// A refusal says who holds the resource, and who comes first: it may be free and refused.
func ExampleHeldError() {
	ctx := context.Background()
	store := memlock.New(nil)
	ann := holdfast.New(store, &holdfast.Options{Owner: "ann", Host: "web-1"})
	bob := holdfast.New(store, &holdfast.Options{Owner: "bob", Host: "web-2"})
	defer ann.Close()
	defer bob.Close()
	hold, err := ann.RLock(ctx, "library", nil) // shared: with others who read
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

	// Another reader could join ann, but it would pass bob.
	_, err = ann.TryRLock(ctx, "library", nil)
	if held := new(holdfast.HeldError); errors.As(err, &held) {
		fmt.Println(held)
		fmt.Println("has a place itself:", held.Position != holdfast.NoPlace)
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
	// has a place itself: false
	// waiters: 1
	// served before: bob on web-2
	// bob gets it, error: <nil>
}

// A Trace sees each refusal of a Lock that waits, and so its position in the queue.
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
		fmt.Printf("%s: %d of %d that wait come before\n", owner, held.Position, held.Waiters)
	}

	cancel()
	waits.Wait()
	// Output:
	// bob: 0 of 1 that wait come before
	// cy: 1 of 2 that wait come before
}

// An operator lets somebody wait at the end of the queue.
func ExampleClient_ForceRequeue() {
	ctx := context.Background()
	store := memlock.New(nil)
	ann := holdfast.New(store, nil)
	defer ann.Close()
	hold, err := ann.Lock(ctx, "deploy", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var served sync.WaitGroup
	for n, owner := range []string{"bob", "cy"} {
		client := holdfast.New(store, &holdfast.Options{Owner: owner})
		defer client.Close()
		served.Go(func() {
			err := client.Do(ctx, "deploy", &holdfast.LockOptions{Fair: true}, func(context.Context) error {
				fmt.Println(owner, "deploys")
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
		untilWaiting(ann, "deploy", n+1)
	}

	first := waiting(ann, "deploy")[0]
	fmt.Println(first.Owner, "is the first, and is to be the last")
	if err := ann.ForceRequeue(ctx, "deploy", first.ID); err != nil {
		fmt.Println(err)
	}
	untilWaiting(ann, "deploy", 2) // bob asks again

	if err := hold.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	served.Wait()
	// Output:
	// bob is the first, and is to be the last
	// cy deploys
	// bob deploys
}

// A goroutine that Do's function starts and does not wait for is none of its work.
func ExampleNotUnder() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	var audit sync.WaitGroup
	err := client.Do(ctx, "orders", nil, func(ctx context.Context) error {
		// With ctx itself, Lock fails at once: it takes the caller for the holder of
		// "orders", who would wait for itself.
		_, err := client.Lock(ctx, "orders", nil)
		if held := new(holdfast.HeldError); errors.As(err, &held) {
			fmt.Println("held by the caller itself:", held.BySelf)
		}
		free := holdfast.NotUnder(context.WithoutCancel(ctx)) // Do ends ctx
		audit.Go(func() {
			err := client.Do(free, "orders", nil, func(context.Context) error {
				fmt.Println("audited")
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
		fmt.Println("booked")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	audit.Wait()
	// Output:
	// held by the caller itself: true
	// booked
	// audited
}

// Of those that wait for each other, under locks that they hold, one gets this error.
func ExampleDeadlockError() {
	// What Lock returned, some 10 s after it began to wait for "stock".
	err := error(&holdfast.DeadlockError{Path: []holdfast.Deadlocked{
		{Holds: holdfast.Status{Resource: "orders", LockID: "job-1"}, WaitsFor: "stock"},
		{Holds: holdfast.Status{Resource: "stock", LockID: "job-2"}, WaitsFor: "orders"},
	}})

	if errors.Is(err, holdfast.ErrDeadlock) {
		// Release what you hold, and begin again. Better, acquire in the same order
		// everywhere.
		fmt.Println("begin again")
	}
	if deadlock := new(holdfast.DeadlockError); errors.As(err, &deadlock) {
		for _, d := range deadlock.Path {
			fmt.Printf("%s holds %s and waits for %s\n", d.Holds.Holder(), d.Holds.Resource, d.WaitsFor)
		}
	}
	// Output:
	// begin again
	// lock ID "job-1" holds orders and waits for stock
	// lock ID "job-2" holds stock and waits for orders
}

// A program that a holder starts, and waits for, works under the holder's lock.
func ExampleUnder() {
	ctx := context.Background()
	store := memlock.New(nil)

	// The first program. It tells the second one which hold that is: Status.Ref.
	parent := holdfast.New(store, nil)
	defer parent.Close()
	hold, err := parent.RLock(ctx, "library", &holdfast.LockOptions{ForOthers: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	var told holdfast.Status
	for status, err := range parent.Holds(ctx, holdfast.Filter{Resource: "library", LockID: hold.LockID()}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		told = status
	}

	// Meanwhile a writer waits in turn, for the first program to end.
	writer := holdfast.New(store, nil)
	defer writer.Close()
	written := make(chan error)
	go func() {
		written <- writer.Do(ctx, "library", &holdfast.LockOptions{Fair: true}, func(context.Context) error { return nil })
	}()
	untilWaiting(parent, "library", 1)

	// The second program. If it stood behind the writer, all three would wait forever.
	child := holdfast.New(store, nil)
	defer child.Close()
	_, err = child.TryRLock(ctx, "library", nil)
	fmt.Println("without Under:", err != nil)
	inner, err := child.RLock(holdfast.Under(ctx, told.Ref()), "library", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("with Under: granted")

	for _, h := range []*holdfast.Hold{inner, hold} {
		if err := h.Unlock(ctx); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("the writer follows, error:", <-written)
	// Output:
	// without Under: true
	// with Under: granted
	// the writer follows, error: <nil>
}
