package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// A Watch that ignores its ctx delays nobody: neither beyond the end of the caller's ctx nor
// beyond the expiry of the hold. While one hangs, no other begins.
func TestWatchThatIsDeaf(t *testing.T) {
	deaf := func(t *testing.T) (*memlock.Store, *holdfast.Client, *atomic.Int32) {
		store, fixed, calls := memlock.New(nil), make(chan struct{}), new(atomic.Int32)
		c := unswept(watching{store, func(context.Context, string) (<-chan struct{}, error) {
			calls.Add(1)
			<-fixed
			return nil, errors.New("not subscribed")
		}}, nil)
		t.Cleanup(func() {
			_ = c.Close() // it returns that a call of the store is still running
			close(fixed)
		})
		return store, c, calls
	}
	inBubble(t, "the ctx ends", func(t *testing.T) {
		store, c, calls := deaf(t)
		lock(t, newClient(t, store, nil), "r", nil)
		for _, wait := range []time.Duration{time.Second, time.Minute, time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			began := time.Now()
			_, err := c.Lock(ctx, "r", nil)
			mustBeHeld(t, err)
			if took := time.Since(began); took != wait {
				t.Errorf("Lock took %v, its ctx ended after %v", took, wait)
			}
		}
		if n := calls.Load(); n != 2 { // the second began before the first was known to hang
			t.Errorf("%d calls of Watch, want 2", n)
		}
	})
	inBubble(t, "the holder unlocks", func(t *testing.T) {
		store, c, _ := deaf(t)
		h := lock(t, newClient(t, store, nil), "r", nil)
		got := locking(t.Context(), c, "r", nil)
		time.Sleep(1500 * time.Millisecond) // and not when it takes a place
		at := time.Now()
		unlock(t, h)
		if r := <-got; r.err != nil || r.at.Sub(at) > 4*time.Second {
			t.Errorf("noticed %v later, error %v", r.at.Sub(at), r.err)
		}
	})
	inBubble(t, "Close", func(t *testing.T) {
		store, c, _ := deaf(t)
		lock(t, newClient(t, store, nil), "r", nil)
		got := locking(t.Context(), c, "r", nil)
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err == nil {
			t.Error("Close does not return that a call of the store is still running")
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Close took %v", took)
		}
		if r := <-got; !errors.Is(r.err, holdfast.ErrClosed) || r.at != began {
			t.Errorf("the wait ended %v later with %v", r.at.Sub(began), r.err)
		}
	})
}
