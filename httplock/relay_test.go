package httplock

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
)

// relay is a network between a store and its server. Each connection works until it is
// cut or goes silent: then bytes get lost unnoticed.
type relay struct {
	t      *testing.T
	target string
	listen net.Listener
	done   sync.WaitGroup

	mu     sync.Mutex
	pairs  map[*pair]bool
	closed bool
}

// pair is a connection through the relay.
type pair struct {
	ends   [2]net.Conn
	silent bool
}

// newRelay returns a relay to the server at the URL, and the URL of the relay.
func newRelay(t *testing.T, serverURL string) (*relay, string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, target: strings.TrimPrefix(serverURL, "http://"), listen: l, pairs: make(map[*pair]bool)}
	r.done.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.cut()
		r.done.Wait()
	})
	return r, "http://" + l.Addr().String()
}

func (r *relay) accept() {
	for {
		near, err := r.listen.Accept()
		if err != nil {
			return
		}
		far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p := &pair{ends: [2]net.Conn{near, far}}
		r.mu.Lock()
		r.pairs[p] = true
		closed := r.closed
		r.mu.Unlock()
		if closed {
			r.close(p)
			continue
		}
		r.done.Go(func() { r.copy(p, 0, 1) })
		r.done.Go(func() { r.copy(p, 1, 0) })
	}
}

func (r *relay) copy(p *pair, from, to int) {
	defer r.close(p)
	buf := make([]byte, 32<<10)
	for {
		n, err := p.ends[from].Read(buf)
		r.mu.Lock()
		silent := p.silent
		r.mu.Unlock()
		if silent {
			if err == nil {
				continue
			}
			return
		}
		if _, failed := p.ends[to].Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (r *relay) close(p *pair) {
	r.mu.Lock()
	delete(r.pairs, p)
	r.mu.Unlock()
	for _, c := range p.ends {
		_ = c.Close()
	}
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	var all []*pair
	for p := range r.pairs {
		all = append(all, p)
	}
	r.mu.Unlock()
	for _, p := range all {
		r.close(p)
	}
}

// silence makes the present connections go silent.
func (r *relay) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.pairs {
		p.silent = true
	}
}
