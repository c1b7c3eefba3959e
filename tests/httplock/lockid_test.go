package httplock_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// A process with a lock ID that is always the same was killed. The next one waits until the
// hold of the first has ended, in each store, behind a server or not: to take it for its own
// would be to fail, or to go on without the lock.
func TestKilledHolderWithSameLockID(t *testing.T) {
	opened := maps.Clone(stores)
	opened["memory"] = func(testing.TB) *behind { // in real time, as the others
		store := memlock.New(nil)
		return &behind{open: func(testing.TB) driver.Store { return store }}
	}
	for name, open := range opened {
		for how, through := range map[string]bool{"direct": false, "through a server": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				data := open(t)
				connect := func() driver.Store {
					s := data.open(t)
					t.Cleanup(func() { _ = s.Close() })
					return s
				}
				if through {
					url := newSite(t, data.open(t), nil).url
					connect = func() driver.Store { return dial(t, url) }
				}
				const ttl = 2 * time.Second
				o := &holdfast.LockOptions{LockID: "pod-0", TTL: ttl}
				client := func(leave bool) *holdfast.Client {
					return holdfast.New(connect(), &holdfast.Options{LeaveHolds: leave, NoSweep: true})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				killed := client(true)
				began := time.Now()
				if _, err := killed.Lock(ctx, "r", o); err != nil {
					t.Fatal(err)
				}
				_ = killed.Close()
				next := client(false)
				defer next.Close()
				_, err := next.TryLock(ctx, "r", o)
				var held *holdfast.HeldError
				if !errors.As(err, &held) || held.BySelf || len(held.Holders) != 1 || held.Holders[0].LockID != "pod-0" {
					t.Errorf("TryLock: %+v", err)
				}
				h, err := next.Lock(ctx, "r", o)
				if err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(began); waited < ttl-100*time.Millisecond {
					t.Errorf("granted after %v, while the hold had not ended", waited)
				}
				if _, err := next.Lock(ctx, "r", o); !errors.As(err, &held) || !held.BySelf {
					t.Errorf("a second Lock: %v", err)
				}
				if err := h.Unlock(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
