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

func ExampleClient_Do() {
	ctx := context.Background()
	client, err := holdfast.Open(ctx, "memory:", nil) // or "sqlite:/var/lib/app/locks.db"
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = client.Do(ctx, "nightly-report", nil, func(ctx context.Context) error {
		// ctx ends if the lock is lost.
		fmt.Println("only one process runs this at a time")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: only one process runs this at a time
}

// Every instance of a service starts the job. The first one runs it, the others skip it.
func ExampleClient_TryDo() {
	ctx := context.Background()
	store := memlock.New(nil)
	ann := holdfast.New(store, nil)
	bob := holdfast.New(store, nil)
	defer ann.Close()
	defer bob.Close()

	job := func(context.Context) error {
		err := bob.TryDo(ctx, "nightly-report", nil, func(context.Context) error { return nil })
		if errors.Is(err, holdfast.ErrHeld) {
			fmt.Println("bob skips it")
		}
		fmt.Println("ann has run it")
		return nil
	}
	if err := ann.TryDo(ctx, "nightly-report", nil, job); err != nil {
		fmt.Println(err)
	}
	// Output:
	// bob skips it
	// ann has run it
}

func ExampleClient_Lock() {
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	// The ctx limits the wait. The lock lives until Unlock.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	hold, err := client.Lock(ctx, "orders/4711", &holdfast.LockOptions{Comment: "refund"})
	if errors.Is(err, holdfast.ErrHeld) {
		fmt.Println("it was held all the time:", err)
		return
	} else if err != nil {
		fmt.Println("the store does not answer:", err)
		return
	}
	fmt.Println("locked", hold.Resource())

	if err := hold.Unlock(ctx); err != nil {
		fmt.Println("it was lost, or blocks others until it expires:", err)
	}
	// Output: locked orders/4711
}

func ExampleClient_TryLock() {
	ctx := context.Background()
	store := memlock.New(nil)
	ann := holdfast.New(store, &holdfast.Options{Owner: "ann", Host: "web-1"})
	bob := holdfast.New(store, &holdfast.Options{Owner: "bob", Host: "web-2"})
	defer ann.Close()
	defer bob.Close()

	if _, err := ann.TryLock(ctx, "cache/rebuild", nil); err != nil {
		fmt.Println(err)
	}
	_, err := bob.TryLock(ctx, "cache/rebuild", nil)
	if held := new(holdfast.HeldError); errors.As(err, &held) {
		fmt.Println(held)
		fmt.Println("ask again in", held.RetryAfter.Round(time.Second))
	}
	// Output:
	// holdfast: "cache/rebuild" is held by ann on web-1
	// ask again in 30s
}

func ExampleClient_RLock() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	// A semaphore: at most three downloads at a time, in all programs that share the store.
	for range 3 {
		if _, err := client.RLock(ctx, "downloads", &holdfast.LockOptions{Limit: 3}); err != nil {
			fmt.Println(err)
		}
	}
	_, err := client.TryRLock(ctx, "downloads", &holdfast.LockOptions{Limit: 3})
	fmt.Println("the fourth is held off:", errors.Is(err, holdfast.ErrHeld))
	// Output: the fourth is held off: true
}

// Readers share a resource, and a writer needs it alone.
func ExampleClient_RLock_readers() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	var readers []*holdfast.Hold
	for range 2 {
		hold, err := client.RLock(ctx, "index", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		readers = append(readers, hold)
	}
	_, err := client.TryLock(ctx, "index", nil)
	fmt.Println("the writer is held off:", errors.Is(err, holdfast.ErrHeld))

	for _, hold := range readers {
		if err := hold.Unlock(ctx); err != nil {
			fmt.Println(err)
		}
	}
	writer, err := client.Lock(ctx, "index", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the writer has it:", writer.Mode())
	// Output:
	// the writer is held off: true
	// the writer has it: exclusive
}

// The context of a hold says when and why the lock was lost.
func ExampleHold_Context() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()
	hold, err := client.Lock(ctx, "leader", nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	// The lock gets lost: here an operator releases it by force.
	if _, err := client.Admin().ForceRelease(ctx, "leader", hold.ID()); err != nil {
		fmt.Println(err)
	}

	<-hold.Context().Done()
	cause := context.Cause(hold.Context())
	fmt.Println("lost:", errors.Is(cause, holdfast.ErrLost))
	fmt.Println("by force:", errors.Is(cause, holdfast.ErrForced))
	// Output:
	// lost: true
	// by force: true
}

// Work ends when its request ends or when the lock is lost, whichever is first.
func ExampleHold_Bind() {
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()
	request, cancelRequest := context.WithCancel(context.Background())
	defer cancelRequest()
	hold, err := client.Lock(request, "orders/4711", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	work, cancel := hold.Bind(request)
	defer cancel()
	fmt.Println("working:", work.Err() == nil)

	cancelRequest()
	<-work.Done()
	fmt.Println("stopped:", work.Err())
	fmt.Println("still locked:", hold.Context().Err() == nil)
	if err := hold.Unlock(request); err != nil { // works although request has ended
		fmt.Println(err)
	}
	// Output:
	// working: true
	// stopped: context canceled
	// still locked: true
}

// A job that must not run again too soon keeps its resource blocked after it has ended.
func ExampleHold_UnlockAfter() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	hold, err := client.Lock(ctx, "digest", &holdfast.LockOptions{TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the digest is sent")
	if err := hold.UnlockAfter(ctx, 20*time.Second); err != nil {
		fmt.Println(err)
	}

	_, err = client.TryLock(ctx, "digest", nil)
	if held := new(holdfast.HeldError); errors.As(err, &held) {
		fmt.Println("again in", held.RetryAfter.Round(time.Second))
	}
	// Output:
	// the digest is sent
	// again in 20s
}

// The receiver of writes refuses a late write by its fencing token.
func ExampleHold_Token() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	// The protected data remembers the highest token that it has seen.
	var highest uint64
	write := func(hold *holdfast.Hold, text string) {
		if hold.Token() < highest {
			fmt.Println("refused:", text)
			return
		}
		highest = hold.Token()
		fmt.Println("written:", text)
	}

	var holders []*holdfast.Hold
	for range 2 {
		hold, err := client.Lock(ctx, "ledger", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		holders = append(holders, hold)
		if err := hold.Unlock(ctx); err != nil {
			fmt.Println(err)
		}
	}
	write(holders[1], "by the second holder")
	// The process of the first holder was stopped, continues, and writes.
	write(holders[0], "by the first, late")
	// Output:
	// written: by the second holder
	// refused: by the first, late
}

// A function that Do calls gets the hold, and its fencing token, from its ctx.
func ExampleHoldOf() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	write := func(ctx context.Context, text string) {
		hold := holdfast.HoldOf(ctx)
		fmt.Printf("write %q under the lock of %s, with a token: %v\n", text, hold.Resource(), hold.Token() > 0)
	}
	err := client.Do(ctx, "ledger", nil, func(ctx context.Context) error {
		write(ctx, "balance")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: write "balance" under the lock of ledger, with a token: true
}

// An operator's tool finds the holder of a resource and releases its hold by force. Package
// driver has the special values of what the store returns.
func ExampleAdmin() {
	ctx := context.Background()
	store := memlock.New(nil)
	service := holdfast.New(store, &holdfast.Options{Owner: "ann", Host: "web-1"})
	defer service.Close()
	if _, err := service.Lock(ctx, "deploy", nil); err != nil {
		fmt.Println(err)
		return
	}

	tool := holdfast.New(store, &holdfast.Options{Owner: "operator", NoSweep: true})
	defer tool.Close()
	for status, err := range tool.Admin().Holds(ctx, holdfast.Filter{Resource: "deploy"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if age := status.Age(); age != driver.Unknown {
			fmt.Println("held by", status.Holder(), "for", age.Round(time.Second))
		}
		released, err := tool.Admin().ForceRelease(ctx, status.Resource, status.HoldID)
		fmt.Println(len(released), "released, error:", err)
	}
	// Output:
	// held by ann on web-1 for 0s
	// 1 released, error: <nil>
}

// One lock ID for all locks of a job releases them together.
func ExampleAdmin_ReleaseID() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	job := &holdfast.LockOptions{LockID: "job-42"}
	for _, resource := range []string{"printer", "paper"} {
		if _, err := client.Lock(ctx, resource, job); err != nil {
			fmt.Println(err)
		}
	}

	// Any client can release the locks, also after the process of the job has crashed.
	released, err := client.Admin().ReleaseID(ctx, "job-42")
	fmt.Println(len(released), "released, error:", err)
	// Output: 2 released, error: <nil>
}

func ExampleAdmin_Holds() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), &holdfast.Options{Owner: "ann"})
	defer client.Close()
	if _, err := client.Lock(ctx, "nightly-report", &holdfast.LockOptions{Comment: "May"}); err != nil {
		fmt.Println(err)
	}

	for status, err := range client.Admin().Holds(ctx, holdfast.Filter{Owner: "ann"}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s by %s (%s), %v left\n", status.Resource, status.Mode, status.Owner,
			status.Comment, status.Left.Round(time.Second))
	}
	// Output: nightly-report: exclusive by ann (May), 30s left
}

func ExampleTrace() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), &holdfast.Options{Trace: &holdfast.Trace{
		HoldStart: func(ctx context.Context, info holdfast.HoldInfo) context.Context {
			fmt.Println("acquired", info.Hold.Resource())
			return ctx
		},
		HoldEnd: func(_ context.Context, info holdfast.HoldInfo) {
			if errors.Is(info.Err, holdfast.ErrLost) {
				fmt.Println(info.Err)
			}
		},
		Released: func(_ context.Context, info holdfast.CallInfo) {
			fmt.Println("released", info.Hold.Resource(), info.Err)
		},
	}})
	defer client.Close()

	err := client.Do(ctx, "nightly-report", nil, func(context.Context) error { return nil })
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// acquired nightly-report
	// released nightly-report <nil>
}

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
