package observe

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// An Observer does not keep Clients alive. If nobody asks for gauges, it keeps nothing of
// Clients that were collected.
func TestForgetsClients(t *testing.T) {
	o := New(nil, func(context.Context, Sample) {})
	for range 10 {
		c := holdfast.New(memlock.New(nil), &holdfast.Options{NoSweep: true, Trace: o.Trace()})
		if _, err := c.Lock(t.Context(), "r", nil); err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	known := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.clients)
	}
	for known() > 0 {
		runtime.GC()
		<-time.After(10 * time.Millisecond)
	}
}
