package esurl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

const (
	retries = 3
	// cooldown is how long a failed node gets no requests, while other nodes work.
	cooldown = 30 * time.Second
	// minLimit is the shortest time limit for a node's answer. Shorter ones do not count.
	minLimit = time.Second
	// maxDrained is how much of an unused answer is read, so that its connection can be
	// used again.
	maxDrained = 64 << 10
)

// nodes are the nodes of one cluster.
type nodes struct {
	urls      []*url.URL // with user and password
	apiKey    string
	transport *http.Transport

	mu        sync.Mutex
	turn      int
	coolUntil []time.Time // until when each node is left out
}

// Perform implements eslock.Performer. Any request may be sent twice, see package
// eslock.
func (n *nodes) Perform(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		node, others := n.next()
		limit := time.Duration(0)
		if deadline, is := req.Context().Deadline(); is && others {
			limit = time.Until(deadline) / 2
		}
		res, err := n.send(req, node, limit)
		if err == nil && res.StatusCode != http.StatusBadGateway && res.StatusCode != http.StatusGatewayTimeout {
			return res, nil
		}
		if !errors.Is(err, context.Canceled) { // a cancelled request says nothing about the node
			n.coolDown(node)
		}
		if try > retries || rest.Pause(req.Context(), 100*time.Millisecond<<try) != nil {
			return res, err
		}
		if res != nil {
			_, _ = io.CopyN(io.Discard, res.Body, maxDrained)
			res.Body.Close()
		}
	}
}

// next returns the node whose turn it is, if possible one that is not left out, and
// whether there are other such nodes.
func (n *nodes) next() (node int, others bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	var fit []int
	for i := range n.urls {
		if node := (n.turn + 1 + i) % len(n.urls); now.After(n.coolUntil[node]) {
			fit = append(fit, node)
		}
	}
	n.turn = (n.turn + 1) % len(n.urls)
	if len(fit) > 0 {
		n.turn = fit[0]
	}
	return n.turn, len(fit) > 1
}

func (n *nodes) coolDown(node int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.coolUntil[node] = time.Now().Add(cooldown)
}

// send sends the request to a node, which must begin to answer within the limit, so that
// the request can go to another node in time. There is no limit if it would be shorter
// than minLimit: a busy node may need that long.
func (n *nodes) send(req *http.Request, node int, limit time.Duration) (*http.Response, error) {
	if limit < minLimit {
		return n.exchange(req.Context(), req, node)
	}
	ctx, cancel := context.WithCancel(req.Context())
	late := time.AfterFunc(limit, cancel)
	res, err := n.exchange(ctx, req, node)
	switch inTime := late.Stop(); {
	case err == nil && inTime:
		res.Body = &body{res.Body, cancel}
		return res, nil
	case err == nil:
		res.Body.Close()
	case inTime || req.Context().Err() != nil:
		cancel()
		return nil, err
	}
	cancel()
	return nil, fmt.Errorf("%s: no answer within %v", n.urls[node].Host, limit.Round(time.Millisecond))
}

// body is the body of an answer. Closing it ends the context of the request.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func (n *nodes) exchange(ctx context.Context, req *http.Request, node int) (*http.Response, error) {
	r, u := req.Clone(ctx), n.urls[node]
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
