package holdfast_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// Waiters for many resources wake their process at most once a second while nothing happens.
// A waiter that gets a signal does not wait for that.
func TestWaitersKeepStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resources = 200
		store := memlock.New(nil)
		holder := newClient(t, store, nil)
		var mu sync.Mutex
		moments := make(map[time.Time]int) // the times at which attempts were answered
		c := newClient(t, store, &holdfast.Options{Trace: &holdfast.Trace{AttemptEnd: func(context.Context, holdfast.AttemptInfo) {
			mu.Lock()
			defer mu.Unlock()
			moments[time.Now()]++
		}}})
		ctx, cancel := context.WithCancel(t.Context())
		var holds []*holdfast.Hold
		var waiting sync.WaitGroup
		for i := range resources {
			resource := fmt.Sprint(i)
			holds = append(holds, lock(t, holder, resource, &holdfast.LockOptions{TTL: time.Hour}))
			waiting.Go(func() {
				if h, err := c.Lock(ctx, resource, nil); err == nil {
					unlock(t, h)
				}
			})
		}
		synctest.Wait()
		mu.Lock()
		clear(moments)
		mu.Unlock()
		const silence = 10 * time.Minute
		time.Sleep(silence)
		synctest.Wait()
		mu.Lock()
		attempts := 0
		for _, n := range moments {
			attempts += n
		}
		if most := int(silence / time.Second); len(moments) > most {
			t.Errorf("%d moments in %v, want at most %d", len(moments), silence, most)
		}
		if attempts < 10*resources {
			t.Errorf("%d waiters asked %d times in %v", resources, attempts, silence)
		}
		mu.Unlock()

		began := time.Now()
		next := locking(ctx, c, "0", nil)
		unlock(t, holds[0])
		if r := <-next; r.err != nil || !r.at.Equal(began) {
			t.Errorf("granted %v after the release, error %v", r.at.Sub(began), r.err)
		} else {
			unlock(t, r.hold)
		}
		cancel()
		waiting.Wait()
	})
}
