package esurl

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	retries = 3
	// rest is how long a node that failed is left out, while others work.
	rest = 30 * time.Second
	// maxDrained is how much is read of an answer that is not used, so that its
	// connection can be used again.
	maxDrained = 64 << 10
)

// nodes are those of one cluster.
type nodes struct {
	urls      []*url.URL // with user and password
	apiKey    string
	transport *http.Transport

	mu    sync.Mutex
	turn  int
	rests []time.Time // until when each is left out
}

// Perform implements eslock.Performer. Any request may be sent twice, see package
// eslock.
func (n *nodes) Perform(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		node := n.next()
		res, err := n.send(req, node)
		if err == nil && res.StatusCode != http.StatusBadGateway && res.StatusCode != http.StatusGatewayTimeout {
			return res, nil
		}
		if !errors.Is(err, context.Canceled) { // which says nothing about the node
			n.leaveOut(node)
		}
		if try > retries || !pause(req.Context(), try) {
			return res, err
		}
		if res != nil {
			_, _ = io.CopyN(io.Discard, res.Body, maxDrained)
			res.Body.Close()
		}
	}
}

// next returns the node whose turn it is, if possible one that is not left out.
func (n *nodes) next() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.turn = (n.turn + 1) % len(n.urls)
	for i := range n.urls {
		if node := (n.turn + i) % len(n.urls); now.After(n.rests[node]) {
			n.turn = node
			break
		}
	}
	return n.turn
}

func (n *nodes) leaveOut(node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rests[node] = time.Now().Add(rest)
}

func (n *nodes) send(req *http.Request, node int) (*http.Response, error) {
	r, u := req.Clone(req.Context()), n.urls[node]
	r.URL.Scheme, r.URL.Host, r.URL.Path = u.Scheme, u.Host, u.Path+req.URL.Path
	r.Host = ""
	r.Header.Set("User-Agent", "holdfast")
	switch {
	case n.apiKey != "":
		r.Header.Set("Authorization", "ApiKey "+n.apiKey)
	case u.User != nil:
		password, _ := u.User.Password()
		r.SetBasicAuth(u.User.Username(), password)
	}
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		r.Body = body
	}
	return n.transport.RoundTrip(r)
}

// pause waits before the next try. It reports whether ctx has not ended.
func pause(ctx context.Context, try int) bool {
	t := time.NewTimer(rand.N(100 * time.Millisecond << try))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
