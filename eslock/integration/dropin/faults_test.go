package dropin_test

import (
	"net/http"
	"sync"
	"testing"
)

// If the index is deleted while a lock is held, the lock is lost, and the next Acquire
// creates the index again.
func TestIndexDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		l := f.acquired("r", "me", long)
		f.Must(t, http.MethodDelete, "/"+f.index, nil)
		if err := l.MustRelease(); err == nil {
			t.Error("there was nothing to release")
		}
		f.must(l.Acquire(t.Context(), long))
		f.refused(f.lock("r", "other").Acquire(t.Context(), long))
		f.Must(t, http.MethodDelete, "/"+f.index, nil)
		f.must(l.Acquire(t.Context(), long))
		f.is(l, true, false)
	})
}

// All programs start at once without the index: one gets the lock.
func TestStartAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		var mu sync.Mutex
		granted := 0
		for i := range 8 {
			l := f.lock("r", string(rune('a'+i)))
			all.Go(func() {
				err := l.Acquire(t.Context(), long)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					granted++
				default:
					f.refused(err)
				}
			})
		}
		all.Wait()
		if granted != 1 {
			t.Errorf("%d hold it", granted)
		}
	})
}
