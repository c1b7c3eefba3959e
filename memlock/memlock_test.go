package memlock

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/drivertest/basetest"
)

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(*testing.T) *drivertest.Harness {
	c := &clock{now: time.Date(2031, 5, 6, 7, 8, 9, 1000, time.UTC)}
	return &drivertest.Harness{Store: New(&Options{Now: c.Now}), Advance: c.Advance, Now: c.Now}
}

func openInRealTime(*testing.T) *drivertest.Harness {
	return &drivertest.Harness{Store: New(nil)}
}

func TestConformance(t *testing.T)             { drivertest.Run(t, open) }
func TestConformanceInRealTime(t *testing.T)   { drivertest.Run(t, openInRealTime) }
func TestConformanceBehindFaults(t *testing.T) { drivertest.Run(t, drivertest.WithFaults(open)) }

func TestBackend(t *testing.T) {
	basetest.Run(t, func(*testing.T) base.Backend { return newBackend(nil) })
}
