package sqlitelock_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/drivertest/basetest"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// inRealTime opens stores on this machine's clock.
func inRealTime(t *testing.T) *drivertest.Harness { return harness(t, sqlitelock.Machine{}) }

// onSetClock opens stores on a machine without a clock since the boot, whose
// wall clock stands still until the suite moves it.
func onSetClock(t *testing.T) *drivertest.Harness {
	var passed atomic.Int64
	now := func() time.Time {
		return time.Date(2031, 5, 6, 7, 8, 9, 1000, time.UTC).Add(time.Duration(passed.Load()))
	}
	h := harness(t, sqlitelock.Machine{Wall: now, Boot: func() (string, error) { return "", nil }})
	h.Now, h.Advance = now, func(d time.Duration) { passed.Add(int64(d)) }
	return h
}

func harness(t *testing.T, m sqlitelock.Machine) *drivertest.Harness {
	path := filepath.Join(t.TempDir(), "locks.db")
	// If the machine is overloaded, a change takes many times as long, and so does the
	// wait of the last of many writers. TestBusy tests the time-out.
	opts := &sqlitelock.Options{BusyTimeout: time.Minute}
	open := func(t *testing.T) driver.Store {
		s, err := sqlitelock.OpenOn(t.Context(), path, opts, m)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	h := &drivertest.Harness{Store: open(t), Reopen: open, Damage: func(t *testing.T, resource string) {
		rawExec(t, raw(t, path), "UPDATE resources SET holds = 'nonsense' WHERE resource = ?", resource)
	}}
	h.BreakWrites = func(t *testing.T) (restore func()) { // all writes wait for another process
		c := start(t, "lock", path)
		c.hear("locked")
		return c.end
	}
	if cutOffFrom != nil {
		h.Break = func(t *testing.T) (restore func()) { return cutOffFrom(t, path) }
	}
	return h
}

// cutOffFrom makes reads and writes of the file fail. Nil if that is impossible: a
// replaced file or a read-only disk is ErrUnusable, which does not pass by itself.
var cutOffFrom func(t *testing.T, path string) (restore func())

func TestConformance(t *testing.T) { drivertest.Run(t, onSetClock) }
func TestConformanceInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("thorough: the conformance suite once more: without a clock that is set")
	}
	drivertest.Run(t, inRealTime)
}
func TestConformanceBehindFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("thorough: the conformance suite once more: with replies lost")
	}
	drivertest.Run(t, drivertest.WithFaults(onSetClock))
}
func TestBackend(t *testing.T) {
	basetest.Run(t, func(t *testing.T) base.Backend { return openBackend(t, newFile(t), sqlitelock.Machine{}) })
}
