package storecall_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/storecall"
)

// Concurrent calls of Enter, Leave and Close: one Close is the first, no operation begins
// after Idle is closed, and all operations have ended before.
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
				t.Error("Idle is closed while an operation runs")
			default:
			}
		}
		for range 8 {
			all.Go(func() {
				<-begin
				for n := 0; n < 100 && s.Enter(); n++ {
					if !s.Go(func() { s.Go(work); work() }) {
						t.Error("Go returned false while an operation runs")
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
						t.Error("an operation began after Close")
					}
					s.Leave()
				}
			})
		}
		close(begin)
		<-s.Idle
		if s.Enter() || s.Close() || s.Go(work) || under.Load() != 0 {
			t.Error("an operation runs after Idle was closed")
		}
		all.Wait()
		if closers.Load() != 1 {
			t.Errorf("%d calls of Close returned true", closers.Load())
		}
	}
}
