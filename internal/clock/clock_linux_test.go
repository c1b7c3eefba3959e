package clock

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestSuspended(t *testing.T) {
	if _, ok := gettime(clockBoottime); !ok {
		t.Fatal("this kernel has no CLOCK_BOOTTIME")
	}
	if _, ok := gettime(12345); ok {
		t.Error("a clock that does not exist was read")
	}
	// A reading is never too large, so the largest of many is the closest.
	most := suspended()
	for range 1000 {
		most = max(most, suspended())
	}
	if most < -time.Millisecond {
		t.Errorf("the machine has slept for %v", most)
	}
}

func TestRaise(t *testing.T) {
	var v atomic.Int64
	for _, step := range []struct{ n, want int64 }{{5, 5}, {3, 5}, {-1, 5}, {6, 6}} {
		if raise(&v, step.n); v.Load() != step.want {
			t.Errorf("raised to %d: got %d, want %d", step.n, v.Load(), step.want)
		}
	}
}
