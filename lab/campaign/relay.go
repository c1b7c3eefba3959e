//go:build unix

package campaign

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lab/campaign/hosts"
)

// The names of the hosts, if there are several. Processes are on the hosts of clients in turn.
const serverHost = "server"

var clientHosts = []string{"one", "two"}

// hostOf returns the host of a process at a place.
func (c *campaign) hostOf(place int) *hosts.Host {
	return c.hosts.Host(clientHosts[place%len(clientHosts)])
}

// reach returns the URL at which processes reach a server on the loopback interface, which with
// several hosts only the server's host has.
func (c *campaign) reach(rawURL string) string {
	c.t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.hosts == nil || u.Host == "" {
		return rawURL
	}
	if c.relays[u.Host] == "" {
		l, err := c.hosts.Host(serverHost).Listen()
		if err != nil {
			c.t.Fatal(err)
		}
		relay(c.t, l, u.Host)
		c.relays[u.Host] = l.Addr().String()
	}
	u.Host = c.relays[u.Host]
	return u.String()
}

// relay forwards the connections of a listener to the target until the test ends.
func relay(t testing.TB, l net.Listener, target string) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &relays{ctx: ctx, open: make(map[net.Conn]bool)}
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		r.end()
		r.running.Wait()
	})
	r.running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.serve(near, target) })
		}
	})
}

// relays are the connections of a relay.
type relays struct {
	ctx     context.Context
	running sync.WaitGroup
	mu      sync.Mutex
	over    bool
	open    map[net.Conn]bool
}

// serve forwards one connection until either side ends.
func (r *relays) serve(near net.Conn, target string) {
	defer near.Close()
	far, err := new(net.Dialer).DialContext(r.ctx, "tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	if !r.keep(near, far) {
		return
	}
	defer r.drop(near, far)
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		r.running.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // either side may cut it
			done <- struct{}{}
		})
	}
	<-done
}

func (r *relays) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		r.open[conn] = true
	}
	return !r.over
}

func (r *relays) drop(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		delete(r.open, conn)
	}
}

// end ends all connections.
func (r *relays) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for conn := range r.open {
		_ = conn.Close()
	}
}
