package wake_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver/wake"
)

// signals returns the number of values in the channel and whether it is open.
func signals(ch <-chan struct{}) (n int, open bool) {
	for {
		select {
		case _, ok := <-ch:
			if !ok {
				return n, false
			}
			n++
		default:
			return n, true
		}
	}
}

func TestHub(t *testing.T) {
	tests := []struct {
		name string
		do   func(*wake.Hub)
		want int
		open bool
	}{
		{"nothing", func(*wake.Hub) {}, 0, true},
		{"a signal", func(h *wake.Hub) { h.Signal("r") }, 1, true},
		{"signals coalesce", func(h *wake.Hub) { h.Signal("r"); h.Signal("r") }, 1, true},
		{"another resource", func(h *wake.Hub) { h.Signal("s") }, 0, true},
		{"all", func(h *wake.Hub) { h.SignalAll() }, 1, true},
		{"close", func(h *wake.Hub) { h.Close() }, 0, false},
		{"close twice, and signal after it", func(h *wake.Hub) { h.Close(); h.Close(); h.Signal("r") }, 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var hub wake.Hub
			first, second := hub.Subscribe(t.Context(), "r"), hub.Subscribe(t.Context(), "r")
			test.do(&hub)
			for _, ch := range []<-chan struct{}{first, second} {
				if n, open := signals(ch); n != test.want || open != test.open {
					t.Errorf("got %d signals, open %v; want %d, %v", n, open, test.want, test.open)
				}
			}
		})
	}
}

func TestSubscriptionEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub wake.Hub
		ctx, cancel := context.WithCancel(t.Context())
		gone, stays := hub.Subscribe(ctx, "r"), hub.Subscribe(t.Context(), "r")
		cancel()
		synctest.Wait()
		hub.Signal("r")
		if n, open := signals(gone); n != 0 || !open {
			t.Errorf("ended subscription: %d signals, open %v", n, open)
		}
		if n, _ := signals(stays); n != 1 {
			t.Errorf("the other one: %d signals, want 1", n)
		}
		if rs := hub.Resources(); len(rs) != 1 || rs[0] != "r" {
			t.Errorf("resources %q, want r", rs)
		}
	})
}

func TestClosedHub(t *testing.T) {
	var hub wake.Hub
	hub.Close()
	if _, open := signals(hub.Subscribe(t.Context(), "r")); open {
		t.Error("a subscription of a closed hub waits for signals that will not come")
	}
}
