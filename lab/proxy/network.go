// Package proxy puts faults of a network between clients and servers in tests:
// connections that are refused, cut, slow or half-open, and replies that are lost
// after the server has acted. It works on bytes, whatever the protocol is.
//
// It is toxiproxy with a toxic of its own, see toxic.go. A client is given either
// DialContext, and reaches each server through a proxy of its own, or the Address
// of such a proxy.
package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Network is what lies between the clients of one test and their servers. All
// methods may be called concurrently.
type Network struct {
	t      testing.TB
	server *toxiproxy.ApiServer
	id     int64 // by which toxics find it
	pipes  sync.WaitGroup
	newest sync.Map // of *connection, by the server

	mu      sync.Mutex
	open    map[*connection]int // pipes
	over    bool                // the test is
	lost    int                 // pieces
	rnd     *rand.Rand
	fault   Fault
	spared  int
	refused bool
	changed chan struct{} // closed and replaced when the fault may have changed
	proxies map[string]*toxiproxy.Proxy
}

// New makes a network without faults. It ends with the test, and with it all its
// connections.
func New(t testing.TB) *Network {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("network: seed %#x", seed)
	n := &Network{
		t: t, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()),
		changed: make(chan struct{}), rnd: rand.New(rand.NewPCG(seed, 0)),
		open: make(map[*connection]int), proxies: make(map[string]*toxiproxy.Proxy),
	}
	n.register()
	t.Cleanup(func() {
		n.mu.Lock()
		n.over = true
		n.mu.Unlock()
		n.Refuse()
		n.pipes.Wait()
		n.unregister()
		t.Logf("network: %d pieces of what was sent were lost", n.lost)
	})
	return n
}

// DialContext connects to the address through the network.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	through, err := n.through(address)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, through)
}

// Address is where the server at the address is reached through the network.
func (n *Network) Address(server string) string {
	n.t.Helper()
	through, err := n.through(server)
	if err != nil {
		n.t.Fatal(err)
	}
	return through
}

func (n *Network) through(server string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.proxies[server]
	if !ok {
		p = toxiproxy.NewProxy(n.server, server, "", server)
		for _, stream := range []string{"upstream", "downstream"} {
			toxic := fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": {"network": %d, "server": %q, "replies": %t}}`,
				toxicType, stream, n.id, server, stream == "downstream")
			if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
				return "", err
			}
		}
		if err := listen(p); err != nil {
			return "", err
		}
		if n.refused {
			p.Stop()
		}
		n.proxies[server] = p
	}
	return p.Listen, nil
}

// listen starts a proxy at a port that the system gives to no connection: one of those
// could have it when the proxy, after Refuse, is to have it again.
func listen(p *toxiproxy.Proxy) (err error) {
	for range 100 {
		p.Listen = fmt.Sprintf("127.0.0.1:%d", 22000+rand.IntN(10000))
		if err = p.Start(); err == nil {
			return nil
		}
	}
	return err
}

// Set replaces the fault for all connections, those that are open too. Where
// something has vanished, the connection is cut; what is sent through it in that
// moment may still arrive, without an answer.
func (n *Network) Set(f Fault) {
	n.change(func() { n.fault = f })
}

// Cut ends all connections that are open, in the same way, those of which a side reads
// nothing when it does. New ones can be made.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut()
}

func (n *Network) cut() {
	for c := range n.open {
		c.end()
	}
}

// Spare suspends the fault until the function it returns is called, for what must
// not be disturbed. What is slow remains so.
func (n *Network) Spare() (end func()) {
	n.change(func() { n.spared++ })
	return sync.OnceFunc(func() { n.change(func() { n.spared-- }) })
}

// Refuse ends all connections, and no new one can be made until Accept.
func (n *Network) Refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = true
	for _, p := range n.proxies {
		p.Stop()
	}
	n.cut()
}

// Accept ends Refuse: servers are reached where they were before.
func (n *Network) Accept() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.refused {
		return
	}
	n.refused = false
	for _, p := range n.proxies {
		// A process that this one has just forked has all that was open until it becomes
		// another program: the listener of before Refuse, too.
		err := p.Start()
		for began := time.Now(); err != nil && time.Since(began) < time.Minute; err = p.Start() {
			runtime.Gosched()
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *Network) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	close(n.changed)
	n.changed = make(chan struct{})
}

// enter counts a pipe of the connection, unless the test is over.
func (n *Network) enter(c *connection) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return false
	}
	n.pipes.Add(1)
	n.open[c]++
	return true
}

func (n *Network) leave(c *connection) {
	n.mu.Lock()
	if n.open[c]--; n.open[c] == 0 {
		delete(n.open, c)
	}
	n.mu.Unlock()
	n.pipes.Done()
}

// Idle says that no connection is open.
func (n *Network) Idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open) == 0
}

// changes is closed when the fault may be another one.
func (n *Network) changes() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// fate is what becomes of a piece.
func (n *Network) fate(reply bool) (e Effect, f Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f = n.fault
	if e = f.Requests; reply {
		e = f.Replies
	}
	if n.spared > 0 || f.Percent > 0 && n.rnd.IntN(100) >= f.Percent {
		e = Pass
	}
	if e != Pass {
		n.lost++
	}
	return e, f
}
