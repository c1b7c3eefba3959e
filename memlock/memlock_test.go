package memlock

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/drivertest/basetest"
)

func open(*testing.T) *drivertest.Harness {
	c := drivertest.NewClock(time.Microsecond)
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
