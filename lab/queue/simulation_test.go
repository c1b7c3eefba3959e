package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/memlock"
)

// network is a Client's connection to the store.
type network struct {
	*memlock.Store
	delay time.Duration // of a request, and of a reply
	lost  float64       // share of lost signals
	polls bool          // without signals
	asks  *atomic.Int64
}

func (n *network) away() { time.Sleep(n.delay/2 + rand.N(n.delay)) }

func (n *network) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	n.asks.Add(1)
	n.away()
	defer n.away()
	return n.Store.Acquire(ctx, q)
}

func (n *network) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	n.away()
	defer n.away()
	return n.Store.Release(ctx, qs)
}

func (n *network) Traits() driver.Traits {
	t := n.Store.Traits()
	t.Notifies = !n.polls
	return t
}

func (n *network) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if n.polls {
		return nil, driver.ErrUnsupported
	}
	n.away()
	from, err := n.Store.Watch(ctx, resource)
	if err != nil {
		return nil, err
	}
	to := make(chan struct{}, 1)
	go func() {
		defer close(to)
		for {
			select {
			case _, ok := <-from:
				if !ok {
					return
				}
			case <-ctx.Done():
				return
			}
			if rand.Float64() < n.lost {
				continue
			}
			n.away()
			select {
			case to <- struct{}{}:
			default:
			}
		}
	}()
	return to, nil
}

// figures are the results of a run: how often the lock was granted, the number of acquires, and
// the longest wait.
type figures struct {
	grants, asks int64
	longest      time.Duration
}

// setting configures a run: clients with each waiters, in the store's queue if fair, that hold
// the lock for hold.
type setting struct {
	clients, each int
	fair, polls   bool
	lost          float64
	hold          time.Duration
	lasts         time.Duration
	limit         int // of shared holds; 0: exclusive
}

// run simulates Clients that lock one resource again and again, for s.lasts.
func run(t *testing.T, s setting) (f figures) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		var asks, grants atomic.Int64
		var longest atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), s.lasts)
		defer cancel()
		var cs []*holdfast.Client
		done := make(chan struct{})
		for range s.clients {
			c := holdfast.New(&network{Store: store, delay: time.Millisecond, lost: s.lost, polls: s.polls, asks: &asks},
				&holdfast.Options{NoSweep: true})
			cs = append(cs, c)
			for range s.each {
				go func() {
					defer func() { done <- struct{}{} }()
					for ctx.Err() == nil {
						began := time.Now()
						take := c.Lock
						if s.limit > 0 {
							take = c.RLock
						}
						h, err := take(ctx, "r", &holdfast.LockOptions{Fair: s.fair, Limit: s.limit})
						if err != nil {
							continue
						}
						for waited := int64(time.Since(began)); ; {
							if old := longest.Load(); old >= waited || longest.CompareAndSwap(old, waited) {
								break
							}
						}
						grants.Add(1)
						time.Sleep(s.hold)
						if err := h.Unlock(ctx); err != nil {
							t.Error(err)
						}
					}
				}()
			}
		}
		for range s.clients * s.each {
			<-done
		}
		f = figures{grants.Load(), asks.Load(), time.Duration(longest.Load())}
		for _, c := range cs {
			c.Close()
		}
		store.Close()
		time.Sleep(time.Second) // until the last signals have arrived
	})
	return f
}

// A lock that is held for 10 ms at a time is granted with Fair about as often as without, and
// needs few requests for each grant, for any number of waiters, with signals, with lost signals
// and without signals.
func TestFigures(t *testing.T) {
	for _, clients := range []int{2, 5, 8, 64, 500} {
		t.Run(fmt.Sprint(clients), func(t *testing.T) {
			if clients > 8 {
				thorough.Test(t, "many waiters")
			}
			figuresOf(t, clients, 0)
		})
	}
	t.Run("40 for 10 permits", func(t *testing.T) { figuresOf(t, 40, 10) })
}

func figuresOf(t *testing.T, clients, permits int) {
	const lasts = 20 * time.Second
	for _, lost := range []float64{0, 0.05} {
		for _, polls := range []bool{false, true} {
			s := setting{clients: clients, each: 1, polls: polls, lost: lost, hold: 10 * time.Millisecond, lasts: lasts, limit: permits}
			plain := run(t, s)
			s.fair = true
			fair := run(t, s)
			share := float64(fair.grants) / float64(plain.grants)
			asks := float64(fair.asks) / float64(fair.grants)
			t.Logf("%3d clients, polls %-5v lost %-4v: %.1f grants/s, %.2f of plain; %.1f asks a grant, plain %.1f; longest wait %v, plain %v",
				clients, polls, lost, float64(fair.grants)/lasts.Seconds(), share, asks, float64(plain.asks)/float64(plain.grants),
				fair.longest.Round(time.Millisecond), plain.longest.Round(time.Millisecond))
			least := 0.75 // measured 0.8 to 1
			switch {
			case polls:
				least = 0.5
			case lost > 0:
				least = 0.65
			}
			if share < least || asks > 10 {
				t.Errorf("%.2f of the grants without Fair, want %.2f; %.1f asks a grant", share, least, asks)
			}
		}
	}
}
