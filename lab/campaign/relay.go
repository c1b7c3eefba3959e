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

// The hosts, if there are several. Processes are on those of clients in turn.
const serverHost = "server"

var clientHosts = []string{"one", "two"}

// hostOf is where the process of a place is.
func (c *campaign) hostOf(place int) *hosts.Host {
	return c.hosts.Host(clientHosts[place%len(clientHosts)])
}

// reach is how processes reach what a URL names on the loopback interface, which only
// the server's host has if there are several.
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

// relay passes on what connections to a listener bring, until the test ends.
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

// serve ends when either side does.
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
			_, _ = io.Copy(way[0], way[1]) // either side may break it off
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

// end ends all of them.
func (r *relays) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for conn := range r.open {
		_ = conn.Close()
	}
}
