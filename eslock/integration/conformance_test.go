package eslock_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// harness opens stores whose requests go through via, and checks their index by the node.
func (n node) harness(t *testing.T, via eslock.Performer) *drivertest.Harness {
	return n.harnessOf(n.Index(t), via)
}

func (n node) harnessOf(index string, via eslock.Performer) *drivertest.Harness {
	opts := &eslock.Options{Index: index}
	return &drivertest.Harness{
		Store:  eslock.New(via, opts),
		Reopen: func(*testing.T) driver.Store { return eslock.New(via, opts) },
		Short:  2 * time.Second,
		Damage: func(t *testing.T, resource string) {
			n.Must(t, http.MethodPost, "/"+opts.Index+"/_update/"+resource,
				map[string]any{"doc": map[string]any{"holdfast": map[string]any{"token": "nonsense"}}})
		},
		BreakWrites: func(t *testing.T) (restore func()) {
			n.set(t, opts.Index, "blocks.write", true)
			return func() { n.set(t, opts.Index, "blocks.write", nil) }
		},
	}
}

// conforms runs the suite on both kinds of server at once.
func conforms(t *testing.T, open func(e engines.Engine) func(t *testing.T) *drivertest.Harness) {
	t.Parallel()
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		drivertest.Run(t, open(e))
	})
}

func directly(e engines.Engine) func(t *testing.T) *drivertest.Harness {
	return func(t *testing.T) *drivertest.Harness {
		n := newNode(t, e)
		return n.harness(t, n)
	}
}

func TestConformance(t *testing.T) { conforms(t, directly) }

func TestConformanceBehindFaults(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: with replies lost")
	conforms(t, func(e engines.Engine) func(t *testing.T) *drivertest.Harness {
		return drivertest.WithFaults(directly(e))
	})
}

// Connections are cut now and then, before or after the server has acted.
func TestConformanceBehindNetwork(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: on a bad network")
	conforms(t, func(e engines.Engine) func(t *testing.T) *drivertest.Harness {
		return proxy.Disturbed(3, func(t *testing.T, w *proxy.Network) *drivertest.Harness {
			n := newNode(t, e)
			return n.harness(t, n.behind(t, w))
		})
	})
}
