package eslock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// behind returns the node through the network. At the end it leaves no connection open.
func (n node) behind(t testing.TB, w *proxy.Network) node {
	t.Helper()
	t.Cleanup(func() { ask.Until(t, "all connections are closed", w.Idle) })
	return node{n.Dialing(t, w.DialContext)}
}

func TestFaults(t *testing.T) {
	thorough.Test(t, "waits for many time-outs")
	t.Parallel()
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		t.Parallel()
		faults.Run(t, func(t *testing.T) *faults.Place {
			n, w := newNode(t, e), proxy.New(t)
			opts := &eslock.Options{Index: n.Index(t)}
			return &faults.Place{
				Network: w,
				Near:    func(t *testing.T) driver.Store { return eslock.New(n.in(t), opts) },
				Far:     func(t *testing.T) driver.Store { return eslock.New(n.behind(t, w), opts) },
			}
		})
	})
}
