package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// deaf is a store without signals that counts its acquires.
type deaf struct {
	driver.Store
	asked atomic.Int64
}

func (d *deaf) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	d.asked.Add(1)
	return d.Store.Acquire(ctx, q)
}

func (d *deaf) Traits() driver.Traits {
	t := d.Store.Traits()
	t.Notifies = false
	return t
}

// A store without signals is polled as often as Options.Poll says.
func TestPoll(t *testing.T) {
	for poll, want := range map[time.Duration][2]int64{
		0:                     {15, 45}, // in 10 s, with pauses of 50% to 150%
		2 * time.Second:       {5, 25},  // which begins with a short one
		10 * time.Millisecond: {900, 1200},
		time.Millisecond:      {9000, 12000},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &deaf{Store: memlock.New(nil)}
			holder, waiter := holdfast.New(s, nil), holdfast.New(s, &holdfast.Options{Poll: poll})
			defer holder.Close()
			defer waiter.Close()
			if _, err := holder.TryLock(t.Context(), "r", nil); err != nil {
				t.Fatal(err)
			}
			before := s.asked.Load()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := waiter.Lock(ctx, "r", nil); !errors.Is(err, holdfast.ErrHeld) {
				t.Errorf("error %v", err)
			}
			if n := s.asked.Load() - before; n < want[0] || n > want[1] {
				t.Errorf("Poll %v: asked %d times, want %d to %d", poll, n, want[0], want[1])
			}
		})
	}
}

// In a store without signals the head of the queue gets a lock that was held for long as soon
// as an unordered waiter does.
func TestFairPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &deaf{Store: memlock.New(nil)}
		h := lock(t, newClient(t, s, nil), "r", nil)
		first := locking(t.Context(), newClient(t, s, nil), "r", fairly("first"))
		time.Sleep(time.Second)
		second := locking(t.Context(), newClient(t, s, nil), "r", fairly("second"))
		time.Sleep(50 * time.Second)
		freed := time.Now()
		unlock(t, h)
		for i, next := range []<-chan result{first, second} {
			r := <-next
			if idle := r.at.Sub(freed); idle > time.Duration(i+1)*600*time.Millisecond {
				t.Errorf("waiter %d: the resource was free for %v", i, idle)
			}
			unlock(t, r.hold)
			freed = r.at
		}
	})
}
