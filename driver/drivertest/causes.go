package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// answers has the named errors as the causes of contexts, such as the context of a group of
// goroutines after one of them has failed.
var answers = []error{
	&driver.HeldError{Resource: "another"},
	fmt.Errorf("hold of another: %w", driver.ErrLost),
	driver.ErrUnsupported,
	driver.ErrInvalid,
	fmt.Errorf("another store: %w", driver.ErrUnusable),
	fmt.Errorf("%w, and %w", context.Canceled, driver.ErrDamaged),
}

// The cause of a context that ends before or during a call is no answer of the store: the
// call either has its own outcome or returns the error of the context.
func causes(b *bench) {
	held := b.acquire(b.request("held", "a"))
	n := 0
	all := []attempt{
		{"acquire", func(ctx context.Context) []error {
			n++
			_, err := b.Store.Acquire(ctx, driver.AcquireRequest(b.request(fmt.Sprint("free ", n), "a").ttl(b.short)))
			return []error{err}
		}},
		renewing("renewal", b.Store, b.long, held),
		renewing("renewals of one hold", b.Store, b.long, held, held),
		releasing("release", b.Store, hold{HoldRef: driver.HoldRef{Resource: "gone", LockID: "a", HoldID: driver.NewHoldID()}}),
		listing("list", b.Store, driver.Filter{}),
		{"sweep", func(ctx context.Context) []error {
			_, err := b.Store.Sweep(ctx, driver.SweepRequest{Idle: b.long})
			return []error{err}
		}},
	}
	if w, ok := b.Store.(driver.Watcher); ok && b.Store.Traits().Notifies {
		all = append(all, attempt{"watch", func(ctx context.Context) []error {
			n++
			_, err := w.Watch(ctx, fmt.Sprint("watched ", n))
			return []error{err}
		}})
	}
	if q, ok := b.Store.(driver.Queue); ok && b.Store.Traits().Queue {
		all = append(all, attempt{"list of waiters", func(ctx context.Context) []error {
			for _, err := range q.Waiters(ctx, driver.Filter{}) {
				return []error{err}
			}
			return []error{nil}
		}})
	}
	for _, a := range all {
		began := time.Now()
		for _, err := range a.do(b.t.Context()) {
			if err != nil {
				b.t.Fatalf("%s: %v", a.what, err)
			}
		}
		took := time.Since(began)
		for _, cause := range answers {
			for _, part := range []int64{0, 1, 3, 5} { // eighths of the duration of the call
				ctx, cancel := context.WithCancelCause(b.t.Context())
				ended := func() { cancel(cause) }
				if part == 0 {
					ended()
				} else {
					time.AfterFunc(time.Duration(part*int64(took)/8), ended)
				}
				for _, err := range a.do(ctx) {
					ended() // ends the context of a watch
					switch {
					case err == nil && part == 0:
						b.t.Errorf("%s succeeded although its context had ended", a.what)
					case err != nil && (definite(err) || !b.Repeats && !errors.Is(err, context.Canceled)):
						b.t.Errorf("%s, whose context ended with %q as its cause: error %v, want context.Canceled", a.what, cause, err)
					}
				}
				cancel(nil)
			}
		}
	}
	b.renew(held.HoldRef, b.long)
}
