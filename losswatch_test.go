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

// forgetful is a store that notices when its server may have lost its data.
type forgetful struct {
	driver.Store
	calls  atomic.Int32
	errs   []error // the errors of the first calls of WatchLoss
	signal chan struct{}
}

func newForgetful(errs ...error) *forgetful {
	return &forgetful{Store: memlock.New(nil), errs: errs, signal: make(chan struct{}, 1)}
}

func (f *forgetful) WatchLoss(context.Context) (<-chan struct{}, error) {
	if n := int(f.calls.Add(1)); n <= len(f.errs) {
		return nil, f.errs[n-1]
	}
	return f.signal, nil
}

// lose deletes all holds.
func (f *forgetful) lose(t *testing.T) {
	t.Helper()
	for s, err := range f.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: s.Ref()}}); err != nil {
			t.Fatal(err)
		}
	}
}

const longTTL = 10 * time.Minute

// After a signal that the store may have lost its data, one batch renews all holds of the
// Client at once.
func TestLooksAfterSignalOfLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newForgetful()
		f := faulty(t, store)
		c := newClient(t, f, nil)
		var kept []*holdfast.Hold
		for _, ttl := range []time.Duration{longTTL, longTTL / 2, 2 * longTTL} {
			kept = append(kept, lock(t, c, ttl.String(), &holdfast.LockOptions{TTL: ttl}))
		}
		left := lock(t, c, "left to its TTL", &holdfast.LockOptions{TTL: longTTL, NoKeepAlive: true})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := f.Calls(drivertest.Renew); n != 1 {
			t.Errorf("%d batches when the watch began, want 1", n)
		}
		store.signal <- struct{}{}
		synctest.Wait()
		if n := f.Calls(drivertest.Renew); n != 2 {
			t.Errorf("%d batches, want another one", n)
		}
		for _, h := range kept {
			alive(t, h)
		}
		store.lose(t)
		store.signal <- struct{}{}
		synctest.Wait()
		if n := f.Calls(drivertest.Renew); n != 3 {
			t.Errorf("%d batches, want another one", n)
		}
		for _, h := range kept {
			if took := mustEnd(t, h, time.Hour, holdfast.ErrLost); took > 0 {
				t.Errorf("the loss of %q showed after %v", h.Resource(), took)
			}
		}
		alive(t, left)
		if n := store.calls.Load(); n != 1 {
			t.Errorf("WatchLoss was called %d times", n)
		}
	})
}

// A renewal that was sent before the signal may have been answered before the loss.
func TestLooksAgainAfterRenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newForgetful()
		reply := make(chan struct{})
		c := newClient(t, faulty(t, store, on(drivertest.Renew, drivertest.Fault{HoldReply: reply}, 2)), nil)
		h := lock(t, c, "r", &holdfast.LockOptions{TTL: longTTL})
		time.Sleep(longTTL/3 + 2*time.Second)
		synctest.Wait()
		store.lose(t)
		time.Sleep(time.Second)
		store.signal <- struct{}{}
		synctest.Wait()
		alive(t, h)
		close(reply)
		if took := mustEnd(t, h, time.Hour, holdfast.ErrLost); took > 0 {
			t.Errorf("the loss showed after %v", took)
		}
	})
}

// A failed watch is repeated, and then the holds are renewed.
func TestLossWatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newForgetful(errors.New("away"), errors.New("away"))
		c := newClient(t, store, nil)
		h := lock(t, c, "r", &holdfast.LockOptions{TTL: longTTL})
		store.lose(t)
		if took := mustEnd(t, h, time.Hour, holdfast.ErrLost); took > 5*time.Second {
			t.Errorf("the loss showed after %v", took)
		}
	})
}

// WatchLoss is not called again if the store does not support it or has stopped to notice
// losses.
func TestNoLossWatch(t *testing.T) {
	for name, store := range map[string]*forgetful{
		"unsupported": newForgetful(driver.ErrUnsupported),
		"closed":      newForgetful(),
	} {
		inBubble(t, name, func(t *testing.T) {
			store.signal = make(chan struct{})
			close(store.signal)
			f := faulty(t, store)
			c := newClient(t, f, nil)
			h := lock(t, c, "r", nil)
			time.Sleep(time.Hour)
			alive(t, h)
			if n := store.calls.Load(); n != 1 {
				t.Errorf("%d calls of WatchLoss, want 1", n)
			}
			if n := f.Calls(drivertest.Renew); n > 370 {
				t.Errorf("%d renewals in an hour", n)
			}
		})
	}
}

// Locks that are held for a moment do not start a watch.
func TestShortHoldsWatchNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newForgetful()
		c := newClient(t, store, nil)
		for range 100 {
			unlock(t, lock(t, c, "r", nil))
			time.Sleep(70 * time.Millisecond) // so that it never ends when the timer fires
		}
		if n := store.calls.Load(); n > 0 {
			t.Errorf("WatchLoss was called %d times", n)
		}
	})
}
