package mongolock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	mongodriver "go.mongodb.org/mongo-driver/v2/x/mongo/driver"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/mongolock"
)

// The server, or the way to it, was slow when the driver first measured it, and is quick
// now. Until the driver measures again, it sends no command with less time than it
// measured.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	const (
		short = time.Second // the time of an attempt
		slow  = 700 * time.Millisecond
	)
	n, near := proxy.New(t), newCollection(t)
	newStore(t, near) // creates the indexes
	t.Cleanup(func() { ask.Until(t, "all connections are closed", n.Idle) })
	n.Set(proxy.Slow(slow))
	var cleared atomic.Int64
	far := engines.MongoThrough(t, near, options.Client().SetDialer(n).SetHeartbeatInterval(3*time.Second).
		SetPoolMonitor(&event.PoolMonitor{Event: func(e *event.PoolEvent) {
			if e.Type == event.ConnectionPoolCleared {
				cleared.Add(1)
			}
		}}))
	ask.Until(t, "the driver refuses to send", func() bool { return refused(t, far, short) })

	s := mongolock.New(far, nil)
	defer closeStore(t, s)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	if _, err := s.Acquire(ctx, ask.Request("cut off", "a")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("acquire on a slow network: %v after %v, want a time-out", err, time.Since(began))
	}
	if n := cleared.Load(); n != 0 {
		t.Errorf("the driver cleared its pool %d times because of the cut connections", n)
	}
	n.Set(proxy.Fault{})

	within := func(what string, do func(ctx context.Context) error) {
		t.Helper()
		wasRefused := refused(t, far, short)
		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		if err := do(ctx); err != nil {
			t.Errorf("%s (the driver refuses: %t): %v", what, wasRefused, err)
		}
	}
	q := ask.Request("slow", "a")
	var g driver.Grant
	within("acquire", func(ctx context.Context) (err error) {
		g, err = s.Acquire(ctx, q)
		return err
	})
	ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
	within("renewal", func(ctx context.Context) error {
		results, err := s.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: q.TTL}})
		if err != nil {
			return err
		}
		return results[0].Err
	})
	within("list", func(ctx context.Context) error {
		for _, err := range s.List(ctx, driver.Filter{}) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	within("release", func(ctx context.Context) error {
		_, err := s.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref}})
		return err
	})
	within("sweep", func(ctx context.Context) error {
		_, err := s.Sweep(ctx, driver.SweepRequest{Idle: time.Hour})
		return err
	})
	within("init", s.Init)
}

// refused reports whether the driver does not send a command with this time limit.
func refused(t *testing.T, coll *mongo.Collection, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := coll.FindOne(ctx, named("anything")).Err()
	return errors.Is(err, mongodriver.ErrDeadlineWouldBeExceeded)
}
