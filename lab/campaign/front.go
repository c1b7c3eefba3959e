//go:build unix

package campaign

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// front is a process of holdfast serve, and the network between it and the store.
type front struct {
	server *engines.Serve
	store  *proxy.Network // nil: the store is a file
}

// fronts is the number of servers in front of a store.
const fronts = 2

// served returns a place that processes reach through holdfast serve. Its store never loses its
// data: servers and callers would refuse a store with other data.
func served(open opener) opener {
	return func(t testing.TB, resources []string) *place {
		t.Helper()
		p := open(t, resources)
		p.served = true
		switch s := p.server.(type) {
		case *engines.RedisServer:
			p.server = lasting{s, s, s}
		case *engines.PostgresServer:
			p.server = lasting{s, s, s}
		default:
			p.server = nil
		}
		return p
	}
}

// lasting is a server that never loses its data.
type lasting struct {
	stopper
	restarter
	freezer
}

// serve starts the servers in front of the place and a balancer in front of them, if processes
// reach the place through servers.
func (c *campaign) serve() {
	c.t.Helper()
	if !c.place.served {
		return
	}
	var addresses []string
	for range fronts {
		f, store := &front{}, c.place.url
		if !c.place.file {
			f.store = proxy.New(c.t)
			store = c.place.through(c.t, f.store)
		}
		f.server = engines.NewServe(c.t, c.plan.Serve, store, "--drain-delay", engines.HAProxyNotices.String())
		c.fronts = append(c.fronts, f)
		addresses = append(addresses, f.server.Address())
	}
	c.place.url, c.place.file = engines.HAProxy(c.t, addresses...), false
}

func isServed(c *campaign) bool { return len(c.fronts) > 0 }

// someFronts returns one of the servers, or all.
func (c *campaign) someFronts() []*front {
	if c.rnd.IntN(2) == 0 {
		return c.fronts
	}
	i := c.rnd.IntN(len(c.fronts))
	return c.fronts[i : i+1]
}

func (c *campaign) killServe(lasts time.Duration) error {
	some := c.someFronts()
	for _, f := range some {
		f.server.Stop()
	}
	c.pause(lasts / 4)
	for _, f := range some {
		f.server.Restart(c.t)
	}
	return nil
}

func (c *campaign) freezeServe(lasts time.Duration) error {
	some := c.someFronts()
	for _, f := range some {
		f.server.Freeze(c.t)
	}
	c.pause(lasts)
	for _, f := range some {
		f.server.Thaw(c.t)
	}
	// Let delayed requests reach the store before the next fault.
	c.pause(c.plan.TTL)
	return nil
}

// endServe restarts a server like an upgrade, while the others continue.
func (c *campaign) endServe(time.Duration) error {
	f := c.fronts[c.rnd.IntN(len(c.fronts))]
	f.server.Terminate(c.t)
	f.server.Restart(c.t)
	return nil
}

// behindServe returns a fault of the network between servers and their store.
func behindServe(name string, faults ...proxy.Fault) fault {
	can := func(c *campaign) bool { return len(c.fronts) > 0 && c.fronts[0].store != nil }
	return fault{name, can, func(c *campaign, lasts time.Duration) error {
		some, fault := c.someFronts(), faults[c.rnd.IntN(len(faults))]
		for _, f := range some {
			f.store.Set(fault)
		}
		c.pause(lasts)
		for _, f := range some {
			f.store.Set(proxy.Fault{})
		}
		return nil
	}}
}
