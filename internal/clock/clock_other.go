//go:build !linux

package clock

import (
	"sync"
	"time"
)

// New returns a clock that counts the suspension of the machine as far as the wall clock
// shows it.
func New() func() time.Duration {
	start := time.Now()
	var mu sync.Mutex
	var d sleepDetector
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		// Round(0) drops the monotonic reading, so that Sub compares wall clocks.
		return d.look(now.Sub(start), now.Round(0).Sub(start.Round(0)))
	}
}
