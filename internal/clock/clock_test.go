package clock

import (
	"sync"
	"testing"
	"time"
)

// If no clock counts sleep, the larger of two advances counts.
func TestSleepDetector(t *testing.T) {
	type reading struct{ mono, wall, want time.Duration }
	const s = time.Second
	for name, readings := range map[string][]reading{
		"awake":               {{s, s, s}, {2 * s, 2 * s, 2 * s}},
		"asleep for a minute": {{s, s, s}, {2 * s, 62 * s, 62 * s}, {3 * s, 63 * s, 63 * s}},
		"asleep twice":        {{s, 11 * s, 11 * s}, {2 * s, 22 * s, 22 * s}},
		"slewed":              {{s, s + 5*time.Millisecond, s}, {2 * s, 2*s + 10*time.Millisecond, 2 * s}},
		"set back":            {{s, -time.Hour, s}, {2 * s, -time.Hour + s, 2 * s}},
		"set ahead":           {{s, time.Hour + s, time.Hour + s}, {2 * s, time.Hour + 2*s, time.Hour + 2*s}},
		"set ahead and back":  {{s, time.Hour + s, time.Hour + s}, {2 * s, 2 * s, time.Hour + 2*s}, {3 * s, 3 * s, time.Hour + 3*s}},
	} {
		t.Run(name, func(t *testing.T) {
			var d sleepDetector
			for i, r := range readings {
				if got := d.look(r.mono, r.wall); got != r.want {
					t.Errorf("look %d: got %v, want %v", i, got, r.want)
				}
			}
		})
	}
}

// The clock runs with the monotonic one while the machine is awake, and never goes back in
// any goroutine.
func TestClock(t *testing.T) {
	before := time.Now()
	clock := New()
	after := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var last time.Duration
			for range 1000 {
				least := time.Since(after)
				now := clock()
				// The machine may pause between the readings.
				if most := time.Since(before); now < last || now < least || now > most+time.Second {
					t.Errorf("read %v after %v; it is between %v and %v", now, last, least, most)
					return
				}
				last = now
			}
		})
	}
	all.Wait()
}
