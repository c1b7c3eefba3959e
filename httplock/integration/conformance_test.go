package httplock_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// places returns a function that creates data in this kind of store.
func places(t *testing.T, name string) func(t testing.TB) *behind {
	if name != "postgres" {
		return stores[name]
	}
	database := engines.PostgresDatabase(t) // shared by all, each in a schema
	return func(testing.TB) *behind { return inDatabase(database) }
}

// harness is for a server of such data, and stores on it.
func harness(t *testing.T, b *behind) *drivertest.Harness {
	s := newSite(t, b.open(t), nil)
	return b.harness(t, dialer(s.url, nil))
}

// harness is for stores that open opens.
func (b *behind) harness(t *testing.T, open func(t *testing.T) driver.Store) *drivertest.Harness {
	h := &drivertest.Harness{HidesPlaces: true, Store: open(t), Reopen: open, Uncounted: b.uncounted, EndlessRenewed: true, Short: time.Second}
	if b.clock != nil {
		h.Now, h.Advance = b.clock.Now, b.clock.Advance
	}
	return h
}

// each runs the suite on a server of each store. With -short it uses only stores without
// an engine.
func each(t *testing.T, open func(t *testing.T, b *behind) *drivertest.Harness, change ...func(func(t *testing.T) *drivertest.Harness) func(t *testing.T) *drivertest.Harness) {
	for name := range stores {
		t.Run(name, func(t *testing.T) {
			if name == "redis" || name == "postgres" {
				thorough.Test(t, "the conformance suite once more: through a server in front of "+name)
			}
			place := places(t, name)
			opened := func(t *testing.T) *drivertest.Harness { return open(t, place(t)) }
			for _, c := range change {
				opened = c(opened)
			}
			drivertest.Run(t, opened)
		})
	}
}

func TestConformance(t *testing.T) { each(t, harness) }

func TestConformanceBehindFaults(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: with calls of the caller lost")
	each(t, harness, drivertest.WithFaults)
}

// The server's own calls of its store fail, and their answers get lost.
func TestConformanceInFrontOfFaults(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: with calls of the server lost")
	each(t, func(t *testing.T, b *behind) *drivertest.Harness {
		var rest rest
		decide := drivertest.RandomFaults(1, 30)
		s := newSite(t, drivertest.NewFaultStore(b.open(t), func(c drivertest.Call) drivertest.Fault {
			if rest.resting() || len(c.Refs) > 0 && c.Refs[0].Resource == "holdfast/server" {
				return drivertest.Fault{}
			}
			return decide(c)
		}), nil)
		h := b.harness(t, rest.repeating(dialer(s.url, nil)))
		h.Repeats = true
		return h
	})
}

// Connections are cut now and then, before or after the server has acted.
func TestConformanceBehindNetwork(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: on a bad network")
	each(t, func(t *testing.T, b *behind) *drivertest.Harness {
		return proxy.Disturbed(3, func(t *testing.T, n *proxy.Network) *drivertest.Harness {
			s := newSite(t, b.open(t), nil)
			return b.harness(t, dialer("http://"+n.Address(s.url[len("http://"):]), nil))
		})(t)
	})
}

// Somebody between caller and server sends answers of his own, repeats requests, cuts
// answers and is slow.
func TestConformanceBehindMiddlebox(t *testing.T) {
	each(t, func(t *testing.T, b *behind) *drivertest.Harness {
		if b.clock == nil {
			thorough.Test(t, "the conformance suite once more: behind a proxy that answers by itself, not in memory")
		}
		s := newSite(t, b.open(t), nil)
		m := newMiddlebox(t, s.url, 1)
		h := b.harness(t, m.repeating(dialer(m.url, nil)))
		h.Repeats = true
		return h
	})
}
