package holdfast_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// A holder learns of waiters through renewals: also renewals of a hold without an end, and calls
// of Renew if the Client does not renew the hold.
func TestWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		a, b := newClient(t, store, nil), newClient(t, store, nil)
		endless := lock(t, a, "endless", &holdfast.LockOptions{TTL: holdfast.Forever})
		left := lock(t, a, "left", &holdfast.LockOptions{NoKeepAlive: true, TTL: time.Hour})
		waits := []<-chan result{
			locking(t.Context(), b, "endless", fairly("w")), locking(t.Context(), b, "left", fairly("w")),
		}
		began := time.Now()
		<-endless.Wanted()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the holder without an end learnt of the waiter after %v", took)
		}
		time.Sleep(time.Minute)
		if isClosed(left.Wanted()) {
			t.Error("wanted, but nothing renewed it")
		}
		if err := left.Renew(t.Context(), time.Hour); err != nil || !isClosed(left.Wanted()) {
			t.Errorf("not wanted after a renewal: %v", err)
		}
		unlock(t, endless)
		unlock(t, left)
		for _, w := range waits {
			granted(t, w)
		}
	})
}
