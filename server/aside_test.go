package server_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// Two fair callers with one lock ID wait, and one behind them. While the first holds the lock,
// the others ask rarely. As it is released, the next one is served at once.
func TestOwnLockIDInTheLine(t *testing.T) {
	for held := time.Second; held < 20*time.Second; held += 2300 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			var asks atomic.Int64
			s := newSite(t, faulty(t, attempts(func(int) drivertest.Fault {
				asks.Add(1)
				return drivertest.Fault{HoldReply: after(5 * time.Millisecond)}
			})), nil)
			g := s.acquire(wire.AcquireRequest{Resource: "r", TTLMs: 600_000})
			var waits []<-chan answer
			for _, lockID := range []string{"pod", "pod", "other"} {
				waits = append(waits, s.posting(t.Context(), wire.AcquirePath, wire.AcquireRequest{
					Resource: "r", WaitMs: 25_000, TTLMs: 600_000, Fair: true, LockID: lockID, HoldID: driver.NewHoldID(),
				}))
				time.Sleep(100 * time.Millisecond)
			}
			s.release(refOf(g))
			g = grantOf(t, <-waits[0])
			before := asks.Load()
			time.Sleep(held)
			if n := asks.Load() - before; n > 40 {
				t.Errorf("%d asks in %v", n, held)
			}
			s.release(refOf(g))
			began, last := time.Now(), waits[2]
			var next answer
			select {
			case next = <-waits[1]:
			case next = <-waits[2]:
				last = waits[1]
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("held for %v: free for %v", held, took)
			}
			s.release(refOf(grantOf(t, next)))
			<-last
		})
	}
}
