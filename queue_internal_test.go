package holdfast

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// busy is a store where all is held by the lock ID "own", as it says from the
// second question on.
type busy struct {
	driver.Store
	asked bool
}

func (b *busy) Release(_ context.Context, rs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return []driver.ReleaseResult{{Found: true}}, nil
}

func (b *busy) Acquire(_ context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if !b.asked {
		b.asked = true
		return driver.Grant{}, errors.New("no answer")
	}
	return driver.Grant{}, &HeldError{
		Resource: q.Resource, RetryAfter: driver.Unknown, BySelf: q.LockID == "own",
		Holders: []Status{{Resource: q.Resource, LockID: "own", HoldID: driver.NewHoldID(), Left: time.Hour}},
	}
}

// A program that locks a new resource each time must not grow: nothing is kept of
// one that nobody waits for or holds, however the waits ended.
func TestLinesLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(&busy{}, nil)
		// Both are told at once, and go in any order.
		for range 2 {
			go func() { _, _ = c.Lock(t.Context(), "both own", &LockOptions{LockID: "own"}) }()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for i := range 20 {
			o := &LockOptions{}
			if i%3 == 1 {
				o.LockID = "own" // sent away from its place in line
			}
			ctx := ctx
			if i%4 == 0 {
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				ctx = short
			}
			go func() { _, _ = c.Lock(ctx, "r", o) }()
			synctest.Wait()
		}
		time.Sleep(5*time.Second + copiesArrive + rememberOrphans)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.queues)+len(c.cleaner.orphans)+len(c.holds) != 0 {
			t.Errorf("left: lines %v, orphans %v, holds %v", c.queues, c.cleaner.orphans, c.holds)
		}
	})
}
