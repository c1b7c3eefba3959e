package storecall_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/storecall"
)

// However many enter, leave and close at once: one Close is the first, nothing begins after
// Idle, and all that began has ended by then.
func TestScope(t *testing.T) {
	for range 50 {
		s := storecall.NewScope(func() time.Duration { return 0 })
		var under, closers atomic.Int64
		var all sync.WaitGroup
		begin := make(chan struct{})
		work := func() {
			under.Add(1)
			defer under.Add(-1)
			select {
			case <-s.Idle:
				t.Error("something is under way, and Idle is closed")
			default:
			}
		}
		for range 8 {
			all.Go(func() {
				<-begin
				for n := 0; n < 100 && s.Enter(); n++ {
					if !s.Go(func() { s.Go(work); work() }) {
						t.Error("Go fails while something is under way")
					}
					work()
					s.Leave()
				}
			})
		}
		for range 3 {
			all.Go(func() {
				<-begin
				if s.Close() {
					closers.Add(1)
					if s.Enter() || !s.Go(work) {
						t.Error("after Close something else is allowed than to go on")
					}
					s.Leave()
				}
			})
		}
		close(begin)
		<-s.Idle
		if s.Enter() || s.Close() || s.Go(work) || under.Load() != 0 {
			t.Error("something is under way after Idle")
		}
		all.Wait()
		if closers.Load() != 1 {
			t.Errorf("%d calls of Close were the first", closers.Load())
		}
	}
}
