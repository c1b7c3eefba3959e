package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
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
		fmt.Println("only one of us runs this")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: only one of us runs this
}

func ExampleClient_Lock() {
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	// The ctx bounds the wait. The lock lives until Unlock.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	hold, err := client.Lock(ctx, "orders/4711", &holdfast.LockOptions{Comment: "refund"})
	if errors.Is(err, holdfast.ErrHeld) {
		fmt.Println("somebody else had it all that time:", err)
		return
	} else if err != nil {
		fmt.Println("the store does not answer:", err)
		return
	}
	fmt.Println("locked", hold.Resource())

	if err := hold.Unlock(ctx); err != nil {
		fmt.Println("it was lost, or blocks others until its end:", err)
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

func ExampleHold_Context() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()
	hold, err := client.Lock(ctx, "leader", nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	// Somebody takes the lock away: here an operator, elsewhere a network that
	// lets no renewal through.
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

func ExampleHold_Token() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	// The place that the lock protects remembers the highest token it has seen.
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
	// The first one stood still for too long, comes to itself, and writes.
	write(holders[0], "by the first, late")
	// Output:
	// written: by the second holder
	// refused: by the first, late
}

func ExampleAdmin_ReleaseID() {
	ctx := context.Background()
	client := holdfast.New(memlock.New(nil), nil)
	defer client.Close()

	// One lock ID for all that a job needs.
	job := &holdfast.LockOptions{LockID: "job-42"}
	for _, resource := range []string{"printer", "paper"} {
		if _, err := client.Lock(ctx, resource, job); err != nil {
			fmt.Println(err)
		}
	}

	// Any client can give all of it up, also after the one that took it crashed.
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
