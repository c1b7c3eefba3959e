package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// churn makes changes in a store, bypassing the server: it holds, releases and acquires, and
// waits.
type churn struct {
	store   driver.Store
	size    dashboardSize
	holds   []driver.AcquireRequest
	waiters []driver.AcquireRequest
}

const (
	// perQueue is how many waiters wait for one resource.
	perQueue = 10
	// askEvery is how often a waiter asks again to keep its place.
	askEvery = 40 * time.Second
)

func newChurn(ctx context.Context, store driver.Store, size dashboardSize) *churn {
	c := &churn{store: store, size: size}
	for i := range size.holds {
		c.holds = append(c.holds, requestOf(fmt.Sprintf("orders/%05d", i), fmt.Sprintf("worker-%d", i%100)))
	}
	for i := range size.waiters {
		q := requestOf(c.holds[i/perQueue].Resource, fmt.Sprintf("waiter-%d", i%100))
		q.Place = driver.NewPlaceID()
		c.waiters = append(c.waiters, q)
	}
	const workers = 32
	atOnce(workers, func(w int) {
		for i := w; i < len(c.holds); i += workers {
			must(store.Acquire(ctx, c.holds[i]))
		}
	})
	for i := range c.waiters {
		c.ask(ctx, i)
	}
	return c
}

func requestOf(resource, owner string) driver.AcquireRequest {
	id := driver.NewHoldID()
	return driver.AcquireRequest{
		Resource: resource, LockID: id.String(), HoldID: id, TTL: time.Hour,
		Details: driver.Details{Owner: owner, Host: "host.example.com"},
	}
}

// ask makes a waiter ask.
func (c *churn) ask(ctx context.Context, i int) {
	c.waiters[i].HoldID = driver.NewHoldID()
	if _, err := c.store.Acquire(ctx, c.waiters[i]); !errors.Is(err, driver.ErrHeld) {
		check(errors.Join(err, fmt.Errorf("%s: the acquire of a waiter was granted or failed", c.waiters[i].Resource)))
	}
}

// during makes changes for a time, and returns the processor time that the server and the store
// have used in it.
func (c *churn) during(ctx context.Context, store *servedStore, s *served, lasts time.Duration) (ofServer, ofStore time.Duration) {
	server := s.cmd.Process.Pid
	before, storeBefore := must(processorTimeOf(server)), must(store.processorTime(ctx))
	c.change(ctx, lasts)
	return must(processorTimeOf(server)) - before, must(store.processorTime(ctx)) - storeBefore
}

// change makes the changes: each releases or acquires a resource without waiters.
func (c *churn) change(ctx context.Context, lasts time.Duration) {
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
			if changed%2 == 1 {
				c.one(ctx, changed) // so that everything is held again
			}
			return
		case <-ticks.C:
			c.one(ctx, changed)
			changed++
		case <-asks.C:
			c.ask(ctx, asked%len(c.waiters))
			asked++
		case <-ctx.Done():
			check(ctx.Err())
		}
	}
}

// one makes the nth change.
func (c *churn) one(ctx context.Context, n int) {
	waited := (len(c.waiters) + perQueue - 1) / perQueue
	q := &c.holds[waited+n/2%(len(c.holds)-waited)]
	if n%2 == 1 {
		q.HoldID = driver.NewHoldID()
		q.LockID = q.HoldID.String()
		must(c.store.Acquire(ctx, *q))
		return
	}
	released := must(c.store.Release(ctx, []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}}}))
	if !released[0].Found {
		check(errors.Join(released[0].Err, fmt.Errorf("the hold of %s is gone", q.Resource)))
	}
}
