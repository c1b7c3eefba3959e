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
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// A store may take longer to answer than a waiter leaves between two requests for its
// place.
func TestFairOnSlowStore(t *testing.T) {
	for _, latency := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second} {
		inBubble(t, latency.String(), func(t *testing.T) {
			store := memlock.New(nil)
			slow := faulty(t, store, delayed(drivertest.Acquire, latency))
			free := lock(t, newClient(t, slow, nil), "free", &holdfast.LockOptions{Fair: true})
			unlock(t, free)
			h := lock(t, newClient(t, store, nil), "r", nil)
			time.AfterFunc(20*time.Second, func() { _ = h.Unlock(context.Background()) })
			began := time.Now()
			r := <-locking(t.Context(), newClient(t, slow, nil), "r", fairly("w"))
			if took := time.Since(began); r.err != nil || took > 20*time.Second+2*latency {
				t.Fatalf("after %v: %v", took, r.err)
			}
			unlock(t, r.hold)
		})
	}
}

// An attempt that arrives after its Lock has ended keeps a free resource from others for
// about a second, however short its TTL is.
func TestLateAttemptOfShortTTL(t *testing.T) {
	for late := 100 * time.Millisecond; late < 9*time.Second; late += 700 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f, hang, arrive := hanging(t, store)
			h := lock(t, newClient(t, store, nil), "r", nil)
			ctx, cancel := context.WithCancel(t.Context())
			o := fairly("late")
			o.TTL = time.Second
			w := locking(ctx, newClient(t, f, nil), "r", o)
			time.Sleep(3 * time.Second)
			hang()
			cancel()
			<-w
			time.Sleep(late)
			close(arrive)
			time.Sleep(time.Millisecond)
			next := locking(t.Context(), newClient(t, store, nil), "r", nil)
			time.Sleep(time.Millisecond)
			h, idle := handOver(t, h, next)
			if idle > 1500*time.Millisecond {
				t.Errorf("arrived after %v: the resource was free for %v", late, idle)
			}
			unlock(t, h)
		})
	}
}

// Fair readers behind a fair writer have the resource as soon as it has gone.
func TestFairReadersBehindWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "r", nil)
		writer := locking(t.Context(), newClient(t, store, nil), "r", fairly("writer"))
		synctest.Wait()
		readers := make([]<-chan result, 20)
		for i := range readers {
			c := newClient(t, store, nil)
			readers[i] = running(func() (*holdfast.Hold, error) {
				return c.RLock(t.Context(), "r", &holdfast.LockOptions{Fair: true})
			})
			synctest.Wait()
		}
		time.Sleep(31 * time.Second)
		unlock(t, h)
		w := (<-writer).hold
		time.Sleep(10 * time.Millisecond)
		freed := time.Now()
		unlock(t, w)
		for i, reader := range readers {
			r := <-reader
			if waited := r.at.Sub(freed); r.err != nil || waited > 100*time.Millisecond {
				t.Fatalf("reader %d: after %v: %v", i, waited, r.err)
			}
			defer unlock(t, r.hold)
		}
	})
}

// nonsense is a store whose refusals are odd.
type nonsense struct {
	driver.Store
	answer func(*holdfast.HeldError)
	asked  atomic.Int64
}

func (s *nonsense) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	s.asked.Add(1)
	g, err := s.Store.Acquire(ctx, q)
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		s.answer(held)
	}
	return g, err
}

// A store of others may answer oddly. It is not asked all the time for that.
func TestOddRefusals(t *testing.T) {
	for name, answer := range map[string]func(*holdfast.HeldError){
		"a negative position": func(e *holdfast.HeldError) { e.Position = -7 },
		"a large position":    func(e *holdfast.HeldError) { e.Position = int(^uint(0) >> 1) },
		"nearly for ever":     func(e *holdfast.HeldError) { e.RetryAfter = holdfast.Forever - 1 },
	} {
		inBubble(t, name, func(t *testing.T) {
			store := memlock.New(nil)
			h := lock(t, newClient(t, store, nil), "r", nil)
			s := &nonsense{Store: store, answer: answer}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := newClient(t, s, nil).Lock(ctx, "r", &holdfast.LockOptions{Fair: true})
			mustBeHeld(t, err)
			if n := s.asked.Load(); n > 100 {
				t.Errorf("asked %d times in 20 s", n)
			}
			unlock(t, h)
		})
	}
}

// The head of a Client's queue is refused for its own lock ID, by the grant of another
// request: the next one takes its place, in time.
func TestHeadWithOwnLockIDLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		gates := map[string]chan struct{}{"head": make(chan struct{}), "next": make(chan struct{})}
		var closed atomic.Bool // the gates are
		f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Acquire && closed.Load() {
				return drivertest.Fault{HoldRequest: gates[c.Refs[0].LockID]} // nil: none
			}
			return drivertest.Fault{}
		})
		permit := func(lockID string, fair bool) *holdfast.LockOptions {
			return &holdfast.LockOptions{LockID: lockID, Fair: fair, Limit: 4}
		}
		other, c := newClient(t, store, nil), newClient(t, &deaf{Store: f}, nil)
		h := lock(t, other, "r", nil)
		var waits []<-chan result
		for _, w := range []*holdfast.LockOptions{permit("1", true), permit("2", true), permit("head", false), permit("next", true)} {
			waits = append(waits, running(func() (*holdfast.Hold, error) { return c.RLock(t.Context(), "r", w) }))
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		closed.Store(true)
		unlock(t, h)
		holds := []*holdfast.Hold{(<-waits[0]).hold, (<-waits[1]).hold} // the two others were invited, and are on their way
		take := func(c *holdfast.Client, lockID string) *holdfast.Hold {
			h, err := c.TryRLock(t.Context(), "r", permit(lockID, false))
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		first := take(other, "first")
		holds = append(holds, take(other, "second"))
		close(gates["head"])
		time.Sleep(2 * time.Second)
		mustWait(t, other, "r", "head")
		unlock(t, first)
		holds = append(holds, take(c, "head"))
		close(gates["next"])
		if r := <-waits[2]; !errors.Is(r.err, holdfast.ErrHeld) {
			t.Fatal(r.err)
		}
		asked := f.Calls(drivertest.Acquire)
		time.Sleep(10 * time.Second)
		mustWait(t, other, "r", "next")
		if n := f.Calls(drivertest.Acquire) - asked; n > 100 {
			t.Errorf("asked %d times in 10 s", n)
		}
		for _, h := range holds {
			unlock(t, h)
		}
		unlock(t, (<-waits[3]).hold)
	})
}
