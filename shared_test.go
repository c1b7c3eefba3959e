package holdfast_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// Goroutines of one Client that ask for the same kind of shared hold do not ask one after the
// other.
func TestSharedGoTogether(t *testing.T) {
	const readers, call = 200, 10 * time.Millisecond
	for name, o := range map[string]*holdfast.LockOptions{"no limit": nil, "limit": {Limit: readers}} {
		inBubble(t, name, func(t *testing.T) {
			f := faulty(t, memlock.New(nil), delayed(drivertest.Acquire, call))
			c := newClient(t, f, nil)
			began := time.Now()
			var all sync.WaitGroup
			for range readers {
				all.Go(func() {
					if _, err := c.RLock(t.Context(), "r", o); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			// Each step invites as many more as were granted: 1, 1, 2, 4, …
			if took := time.Since(began); took > 10*call {
				t.Errorf("%d goroutines took %v, with %v for a call", readers, took, call)
			}
			if n := f.Calls(drivertest.Acquire); n != readers {
				t.Errorf("the waiters sent %d acquires", n)
			}
		})
	}
}

// While they are refused, many waiters for a shared hold cost the store as much as one. After
// a grant not all of the others are refused.
func TestSharedThatAreRefused(t *testing.T) {
	const readers, limit = 1000, 3
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		f := faulty(t, store)
		c, d := newClient(t, f, nil), newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		var all sync.WaitGroup
		var inside, most atomic.Int32
		for range readers {
			all.Go(func() {
				h, err := c.RLock(t.Context(), "r", &holdfast.LockOptions{Limit: limit})
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Second)
				inside.Add(-1)
				unlock(t, h)
			})
		}
		synctest.Wait()
		if n := f.Calls(drivertest.Acquire); n != 2 {
			t.Errorf("%d acquires while a writer holds, want 2", n)
		}
		began := time.Now()
		unlock(t, h)
		all.Wait()
		if most.Load() != limit {
			t.Errorf("%d at the same time, want %d", most.Load(), limit)
		}
		if took, least := time.Since(began), readers/limit*time.Second; took > least+least/10 {
			t.Errorf("took %v, want about %v", took, least)
		}
		if n := f.Calls(drivertest.Acquire); n > 5*readers {
			t.Errorf("%d acquires for %d grants", n, readers)
		}
	})
}

// Only waiters for the same kind of hold ask together, and nobody overtakes a writer.
func TestSharedDoNotPassAWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		h := lock(t, d, "r", nil)
		var mu sync.Mutex
		var order strings.Builder
		var all sync.WaitGroup
		take := func(name string, lock func() (*holdfast.Hold, error)) {
			all.Go(func() {
				h, err := lock()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order.WriteString(name)
				mu.Unlock()
				time.Sleep(time.Minute)
				unlock(t, h)
			})
			synctest.Wait()
		}
		shared := func() (*holdfast.Hold, error) { return c.RLock(t.Context(), "r", nil) }
		for range 4 {
			take("s", shared)
		}
		take("W", func() (*holdfast.Hold, error) { return c.Lock(t.Context(), "r", nil) })
		for range 4 {
			take("s", shared)
		}
		began := time.Now()
		unlock(t, h)
		all.Wait()
		if got := order.String(); got != "ssssWssss" {
			t.Errorf("granted in the order %s", got)
		}
		if took := time.Since(began); took != 3*time.Minute {
			t.Errorf("took %v, want 3 min", took)
		}
	})
}

// A writer does not starve behind readers of its Client that come and go and never leave the
// resource free.
func TestWriterAmongReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memlock.New(nil), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 30 * time.Millisecond)
				for ctx.Err() == nil {
					h, err := c.RLock(ctx, "r", nil)
					if err != nil {
						return
					}
					time.Sleep(100 * time.Millisecond)
					unlock(t, h)
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		h := lock(t, c, "r", nil)
		if waited := time.Since(began); waited > 100*time.Millisecond {
			t.Errorf("the writer waited for %v, want no longer than the readers that it found", waited)
		}
		cancel()
		unlock(t, h)
		all.Wait()
	})
}

// A waiter goes on waiting if the limits differ, and the log says so once.
func TestLimitsThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := memlock.New(nil)
		d := newClient(t, store, nil)
		c := newClient(t, store, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		h, err := d.RLock(t.Context(), "r", &holdfast.LockOptions{Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.TryRLock(t.Context(), "r", nil)
		if held := heldError(t, err); !held.LimitDiffers {
			t.Errorf("got %+v", held)
		}
		got := running(func() (*holdfast.Hold, error) { return c.RLock(t.Context(), "r", nil) })
		synctest.Wait()
		// Each waiter in line gets an error about its own limit.
		for limit, differs := range map[int]bool{3: false, 5: true} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.RLock(ctx, "r", &holdfast.LockOptions{Limit: limit})
			if held := heldError(t, err); held.LimitDiffers != differs {
				t.Errorf("limit %d: got %v", limit, held)
			}
		}
		time.Sleep(time.Minute)
		unlock(t, h)
		granted(t, got)
		if n := strings.Count(log.String(), "another limit"); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s", n, &log)
		}
	})
}

// Fair readers that wait for a writer do not wait for each other.
func TestFairReadersTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const readers = 30
		store := memlock.New(nil)
		h := lock(t, newClient(t, store, nil), "r", nil)
		waits := make([]<-chan result, readers)
		for i := range waits {
			c := newClient(t, store, nil)
			waits[i] = running(func() (*holdfast.Hold, error) {
				return c.RLock(t.Context(), "r", &holdfast.LockOptions{Fair: true})
			})
			synctest.Wait()
		}
		time.Sleep(31 * time.Second)
		released := time.Now()
		unlock(t, h)
		holds := make([]*holdfast.Hold, readers)
		for i, w := range waits {
			r := <-w
			if waited := r.at.Sub(released); r.err != nil || waited > 100*time.Millisecond {
				t.Errorf("reader %d was served after %v, error %v", i, waited, r.err)
			}
			holds[i] = r.hold
		}
		for _, h := range holds {
			unlock(t, h)
		}
	})
}

// Fair readers behind a fair writer get the resource as soon as the writer has released it.
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
