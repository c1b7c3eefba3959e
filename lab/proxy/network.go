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

// Network is the network between the clients of one test and their servers. Its methods may be
// called concurrently.
type Network struct {
	t      testing.TB
	server *toxiproxy.ApiServer
	id     int64 // identifies the network in the attributes of its toxics
	pipes  sync.WaitGroup
	newest sync.Map // of *connection, by server

	mu      sync.Mutex
	open    map[*connection]int // pipes
	over    bool                // the test has ended
	lost    int                 // number of pieces
	rnd     *rand.Rand
	fault   Fault
	spared  int
	refused bool
	changed chan struct{} // closed and replaced when the fault may have changed
	proxies map[string]*toxiproxy.Proxy
}

// New returns a network without faults. It ends with the test, with all its connections.
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

// Address returns the address at which the network passes connections on to server.
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

// listen starts a proxy at a port outside of the range for outgoing connections. A port in that
// range could be taken by a connection between Refuse and Accept.
func listen(p *toxiproxy.Proxy) (err error) {
	for range 100 {
		p.Listen = fmt.Sprintf("127.0.0.1:%d", 22000+rand.IntN(10000))
		if err = p.Start(); err == nil {
			return nil
		}
	}
	return err
}

// Set replaces the fault for all connections, including open ones. A connection on which a
// piece has vanished is cut; data sent on it at this moment may still arrive, without an
// answer.
func (n *Network) Set(f Fault) {
	n.change(func() { n.fault = f })
}

// Cut ends all open connections, even if one side does not read. New connections are possible.
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

// Spare suspends the fault until end is called, except for its delay.
func (n *Network) Spare() (end func()) {
	n.change(func() { n.spared++ })
	return sync.OnceFunc(func() { n.change(func() { n.spared-- }) })
}

// Refuse ends all connections and refuses new ones until Accept.
func (n *Network) Refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = true
	for _, p := range n.proxies {
		p.Stop()
	}
	n.cut()
}

// Accept ends Refuse. Each server has the same address as before.
func (n *Network) Accept() {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.refused {
		return
	}
	n.refused = false
	for _, p := range n.proxies {
		// A process that was forked just now still has all open files of this one until it
		// executes its program, including the old listener.
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

// enter counts a pipe of the connection. It returns false if the test has ended.
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

// Idle reports whether no connection is open.
func (n *Network) Idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open) == 0
}

// changes returns a channel that is closed when the fault may have changed.
func (n *Network) changes() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

// fate chooses the effect on a piece.
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
