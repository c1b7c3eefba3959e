package drivertest

import (
	"sync"
	"time"
)

// Clock is a clock for stores under test: see Harness.Now. It stands still until it is moved.
// All methods may be called concurrently.
type Clock struct {
	unit time.Duration

	mu  sync.Mutex
	now time.Time
}

// NewClock returns a Clock that shows a time in the future, in whole units.
func NewClock(unit time.Duration) *Clock {
	return &Clock{unit: unit, now: time.Date(2031, 5, 6, 7, 8, 9, 1000, time.UTC)}
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Truncate(c.unit)
}

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
