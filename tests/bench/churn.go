package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// churn is what others do in a store, without the server: they hold, release and acquire, and
// wait.
type churn struct {
	store   driver.Store
	size    dashboardSize
	holds   []driver.AcquireRequest
	waiters []driver.AcquireRequest
}

const (
	// perQueue waiters wait for one resource.
	perQueue = 10
	// askEvery is how often a waiter asks again, so that its place is kept.
	askEvery = 40 * time.Second
)

func newChurn(ctx context.Context, store driver.Store, size dashboardSize) (*churn, error) {
	c := &churn{store: store, size: size}
	for i := range size.holds {
		c.holds = append(c.holds, requestOf(fmt.Sprintf("orders/%05d", i), fmt.Sprintf("worker-%d", i%100)))
	}
	for i := range size.waiters {
		q := requestOf(c.holds[i/perQueue].Resource, fmt.Sprintf("waiter-%d", i%100))
		q.Place = driver.NewPlaceID()
		c.waiters = append(c.waiters, q)
	}
	work := make(chan int)
	var all sync.WaitGroup
	errs := make([]error, 32)
	for w := range errs {
		all.Go(func() {
			for i := range work {
				if errs[w] == nil {
					_, errs[w] = store.Acquire(ctx, c.holds[i])
				}
			}
		})
	}
	for i := range c.holds {
		work <- i
	}
	close(work)
	all.Wait()
	for i := range c.waiters {
		errs = append(errs, c.ask(ctx, i))
	}
	return c, errors.Join(errs...)
}

func requestOf(resource, owner string) driver.AcquireRequest {
	id := driver.NewHoldID()
	return driver.AcquireRequest{
		Resource: resource, LockID: id.String(), HoldID: id, TTL: time.Hour,
		Details: driver.Details{Owner: owner, Host: "host.example.com"},
	}
}

// ask lets a waiter ask.
func (c *churn) ask(ctx context.Context, i int) error {
	c.waiters[i].HoldID = driver.NewHoldID()
	_, err := c.store.Acquire(ctx, c.waiters[i])
	if errors.Is(err, driver.ErrHeld) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("%s was granted to a waiter, or could not be asked for", c.waiters[i].Resource))
}

// during lets so much happen for a time, and returns the processor time that the server and
// the store have taken meanwhile.
func (c *churn) during(ctx context.Context, store *servedStore, s *served, lasts time.Duration) (ofServer, ofStore time.Duration, err error) {
	server := s.cmd.Process.Pid
	before, err1 := processorTimeOf(server)
	storeBefore, err2 := store.processorTime(ctx)
	if err := errors.Join(err1, err2, c.change(ctx, lasts)); err != nil {
		return 0, 0, err
	}
	after, err1 := processorTimeOf(server)
	storeAfter, err2 := store.processorTime(ctx)
	return after - before, storeAfter - storeBefore, errors.Join(err1, err2)
}

// change makes the changes: each releases a resource that nobody waits for, or acquires it.
func (c *churn) change(ctx context.Context, lasts time.Duration) error {
	ticks := time.NewTicker(time.Second / time.Duration(c.size.changes))
	defer ticks.Stop()
	asks := time.NewTicker(askEvery / time.Duration(len(c.waiters)))
	defer asks.Stop()
	end := time.NewTimer(lasts)
	defer end.Stop()
	asked, changed := 0, 0
	for {
		select {
		case <-end.C:
			if changed%2 == 0 {
				return nil
			}
			return c.one(ctx, changed) // all is held again
		case <-ticks.C:
			if err := c.one(ctx, changed); err != nil {
				return err
			}
			changed++
		case <-asks.C:
			if err := c.ask(ctx, asked%len(c.waiters)); err != nil {
				return err
			}
			asked++
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// one is the nth change.
func (c *churn) one(ctx context.Context, n int) error {
	waited := (len(c.waiters) + perQueue - 1) / perQueue
	q := &c.holds[waited+n/2%(len(c.holds)-waited)]
	if n%2 == 1 {
		q.HoldID = driver.NewHoldID()
		q.LockID = q.HoldID.String()
		_, err := c.store.Acquire(ctx, *q)
		return err
	}
	released, err := c.store.Release(ctx, []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}}})
	if err == nil && !released[0].Found {
		err = errors.Join(released[0].Err, fmt.Errorf("the hold of %s is gone", q.Resource))
	}
	return err
}
