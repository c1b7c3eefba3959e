package eslock_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/eslock"
)

func (n node) harness(t *testing.T) *drivertest.Harness {
	opts := &eslock.Options{Index: n.newIndex(t)}
	return &drivertest.Harness{
		Store:  eslock.New(n, opts),
		Reopen: func(*testing.T) driver.Store { return eslock.New(n, opts) },
		Short:  2 * time.Second,
		Damage: func(t *testing.T, resource string) {
			n.must(t, http.MethodPost, "/"+opts.Index+"/_update/"+resource,
				map[string]any{"doc": map[string]any{"holdfast": map[string]any{"token": "nonsense"}}})
		},
	}
}

func TestConformance(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) { drivertest.Run(t, n.harness) })
}

func TestConformanceBehindFaults(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) { drivertest.Run(t, drivertest.WithFaults(n.harness)) })
}
