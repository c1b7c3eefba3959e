package pglock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/engines"
)

// A primary that crashes, and one whose standby gets nothing.
func TestOutages(t *testing.T) {
	pair := engines.NewPostgresPair(t)
	d := inDatabase(t, pair.URL)
	drivertest.Outages(t, func(t *testing.T) *drivertest.Harness {
		h := harness(d, schema(), t, byPool(d))
		h.Restart = func(t *testing.T) { pair.Primary.Restart(t) }
		h.HoldCopies = func(t *testing.T) (resume func()) {
			pair.Cut(t)
			return func() { pair.Restore(t) }
		}
		return h
	})
}
