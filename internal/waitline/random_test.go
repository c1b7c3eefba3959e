package waitline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/storecall"
	"github.com/holdfast-go/holdfast/internal/waitline"
	"github.com/holdfast-go/holdfast/memlock"
)

// crowd waits in the lines of several processes for the same resources of one store.
type crowd struct {
	t     *testing.T
	store *memlock.Store
	asked driver.Store // loses requests and answers
	lines []*waitline.Lines

	mu   sync.Mutex
	held map[string]int
	free map[string]time.Time // since when
	gone map[driver.PlaceID]bool
	idle time.Duration // the longest time for which a resource with waiters was free
}

func newCrowd(t *testing.T, places, faults int) *crowd {
	c := &crowd{
		t: t, store: memlock.New(nil),
		held: make(map[string]int), free: make(map[string]time.Time), gone: make(map[driver.PlaceID]bool),
	}
	f := drivertest.NewFaultStore(c.store, drivertest.RandomFaults(rand.Uint64(), faults))
	c.asked = f
	began := time.Now()
	for range 2 {
		scope := storecall.NewScope(func() time.Duration { return time.Since(began) })
		ls := waitline.New(waitline.Config{
			Scope: scope, Traits: f.Traits, Watch: f.Watch, Places: places, Dropped: c.dropped, Poll: time.Second, MostAway: 100,
		})
		c.lines = append(c.lines, ls)
		t.Cleanup(func() { ls.Close(); scope.End() })
	}
	t.Cleanup(func() { _ = f.Close() })
	return c
}

func (c *crowd) dropped(d waitline.Dropped) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone[d.Place] {
		c.t.Errorf("place %v is dropped twice", d.Place)
	}
	c.gone[d.Place] = true
	if !d.Taken {
		c.release(driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: d.Resource, LockID: d.LockID}, Place: d.Place})
	}
}

func (c *crowd) release(q driver.ReleaseRequest) {
	if _, err := c.store.Release(context.Background(), []driver.ReleaseRequest{q}); err != nil {
		c.t.Error(err)
	}
}

// wait waits in a line until ctx ends, and reports whether it was granted the resource.
func (c *crowd) wait(ctx context.Context, ls *waitline.Lines, w *waitline.Waiter, q driver.AcquireRequest) bool {
	ls.Join(w)
	began := time.Now()
	for {
		ask, err := w.Turn(ctx)
		if err != nil {
			return false
		}
		c.mu.Lock()
		if c.gone[ask.Place] {
			c.t.Errorf("a waiter asks with place %v, which was dropped", ask.Place)
		}
		c.mu.Unlock()
		q.Place = ask.Place
		time.Sleep(rand.N(3 * time.Millisecond))
		_, err = c.asked.Acquire(context.Background(), q)
		var held *driver.HeldError
		switch {
		case err == nil:
			c.mu.Lock()
			if c.held[q.Resource]++; c.held[q.Resource] == 1 {
				from := c.free[q.Resource]
				if began.After(from) {
					from = began
				}
				c.idle = max(c.idle, time.Since(from))
			}
			c.mu.Unlock()
			if err := w.Granted(); err != nil {
				c.t.Error(err)
			}
			return true
		case errors.As(err, &held):
			w.Refused(held, held.Ahead, 0)
		default:
			_ = w.Silent(err)
		}
	}
}

// take waits for a resource, may leave or go away for a while, and releases the resource.
func (c *crowd) take(i int) {
	kinds := []waitline.Kind{exclusive, fair, shared, two, fairRead}
	ls, k := c.lines[i%2], kinds[rand.N(len(kinds))]
	name := fmt.Sprint(i)
	q := driver.AcquireRequest{
		Resource: fmt.Sprint(rand.N(2)), LockID: name, HoldID: driver.NewHoldID(),
		Mode: k.Mode, Limit: k.Limit, Fair: k.Fair, TTL: time.Hour,
	}
	time.Sleep(rand.N(10 * time.Second))
	granted, comes := false, true
	var w *waitline.Waiter
	for n := 0; comes && !granted; n++ {
		w = &waitline.Waiter{Resource: q.Resource, LockID: name, Kind: k, Timeout: time.Second, AtOnce: n > 0}
		if ls.Places > 1 {
			w.Key = name
		}
		patience := time.Hour
		if rand.N(10) < 4 {
			patience = rand.N(5 * time.Second)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		granted = c.wait(ctx, ls, w, q)
		cancel()
		if !granted && patience == time.Hour {
			c.t.Error("a waiter is stuck")
		}
		comes = ls.Places > 1 && rand.N(2) == 0
		if !granted && comes {
			w.Away(7 * time.Second)
			time.Sleep(rand.N(100 * time.Millisecond))
		}
	}
	if granted {
		time.Sleep(rand.N(400 * time.Millisecond))
	}
	c.mu.Lock()
	if granted {
		if c.held[q.Resource]--; c.held[q.Resource] == 0 {
			c.free[q.Resource] = time.Now()
		}
	}
	c.mu.Unlock()
	r := driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: name, HoldID: q.HoldID}}
	if ls.Places > 1 {
		r.Place = w.Place
	}
	c.release(r)
	w.Leave()
}

// Whatever gets lost, and whichever waiters leave or come back: nobody waits while the
// resource is free, and nothing remains of the lines.
func TestRandomCrowd(t *testing.T) {
	tests := []struct {
		places, faults int
		idle           time.Duration // an absent waiter may be the next in the store's queue
	}{
		{1, 0, 4 * time.Millisecond},
		{16, 0, 110 * time.Millisecond},
		{1, 15, 3 * time.Second},
		{16, 15, 3 * time.Second},
	}
	for range 20 {
		for _, test := range tests {
			bubble(t, fmt.Sprint(test), func(t *testing.T) {
				c := newCrowd(t, test.places, test.faults)
				var all sync.WaitGroup
				for i := range 40 {
					all.Go(func() { c.take(i) })
				}
				all.Wait()
				if c.idle > test.idle {
					t.Errorf("a resource with waiters was free for %v", c.idle)
				}
				synctest.Wait()
				for _, ls := range c.lines {
					if used, _ := ls.Kept(); used != 0 {
						t.Errorf("%d lines are left", used)
					}
				}
				for p, err := range c.store.Waiters(t.Context(), driver.Filter{}) {
					t.Errorf("left in the queue of the store: %+v, %v", p, err)
				}
			})
		}
	}
}
