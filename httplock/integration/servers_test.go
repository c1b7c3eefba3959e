package httplock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/memlock"
)

// Clients of two servers and of the store itself exclude one another.
func TestExclusionOfServersAndStore(t *testing.T) {
	for name, place := range stores {
		t.Run(name, func(t *testing.T) {
			if name == "redis" || name == "postgres" {
				thorough.Test(t, "needs a server of "+name)
			}
			if name == "memory" {
				place = func(testing.TB) *behind {
					store := lend(memlock.New(nil))
					return &behind{open: func(testing.TB) driver.Store { return store }}
				}
			}
			b := place(t)
			direct := b.open(t)
			t.Cleanup(func() { _ = direct.Close() })
			clients := []*holdfast.Client{
				holdfast.New(dial(t, newSite(t, b.open(t), nil).url), nil),
				holdfast.New(dial(t, newSite(t, b.open(t), nil).url), nil),
				holdfast.New(direct, nil),
			}
			const workers, times = 2, 15
			var inside, count atomic.Int32
			var last atomic.Uint64
			var wg sync.WaitGroup
			for i, c := range clients {
				for range workers {
					wg.Go(func() {
						for range times {
							h, err := c.Lock(t.Context(), "r", nil)
							if err != nil {
								t.Errorf("client %d: %v", i, err)
								return
							}
							if n := inside.Add(1); n != 1 {
								t.Errorf("client %d: %d hold it", i, n)
							}
							if before := last.Swap(h.Token()); before >= h.Token() {
								t.Errorf("client %d: token %d after %d", i, h.Token(), before)
							}
							count.Add(1)
							inside.Add(-1)
							if err := h.Unlock(t.Context()); err != nil {
								t.Errorf("client %d: %v", i, err)
							}
						}
					})
				}
			}
			wg.Wait()
			if got, want := int(count.Load()), len(clients)*workers*times; got != want {
				t.Errorf("%d times locked, want %d", got, want)
			}
			for _, c := range clients {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A waiter at a server is woken at once by a release that bypasses the server, and vice
// versa.
func TestWakeAcrossServersAndStore(t *testing.T) {
	for i, way := range [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {0, 0}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				t.Cleanup(func() { _ = store.Close() })
				var clients []*holdfast.Client
				for range 2 {
					s, over := inMemorySite(t, lend(store))
					clients = append(clients, holdfast.New(openOver(t, s.url, over), nil))
				}
				clients = append(clients, holdfast.New(lend(store), nil))
				defer func() {
					for _, c := range clients {
						if err := c.Close(); err != nil {
							t.Error(err)
						}
					}
				}()
				holder, waiter := clients[way[0]], clients[way[1]]
				h, err := holder.Lock(t.Context(), "r", nil)
				if err != nil {
					t.Fatal(err)
				}
				granted := make(chan time.Time, 1)
				go func() {
					g, err := waiter.Lock(context.WithoutCancel(t.Context()), "r", nil)
					if err != nil {
						t.Error(err)
						close(granted)
						return
					}
					granted <- time.Now()
					_ = g.Unlock(context.WithoutCancel(t.Context()))
				}()
				synctest.Wait()
				time.Sleep(time.Minute) // by now it asks only every few seconds
				released := time.Now()
				if err := h.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := (<-granted).Sub(released); took != 0 {
					t.Errorf("granted %v after the release", took)
				}
				synctest.Wait()
			})
		})
	}
}
