package httplock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/front"
	"github.com/holdfast-go/holdfast/tests/ask"
	"github.com/holdfast-go/holdfast/tests/engines"
	"github.com/holdfast-go/holdfast/tests/internal/thorough"
)

// node is a server that can end in the order in which `holdfast serve` does.
type node struct {
	t       *testing.T
	address string
	locks   *server.Server
	http    *http.Server
	served  sync.WaitGroup
}

// startNode starts one that counts its waits.
func startNode(t *testing.T, address string, store driver.Store, waits *atomic.Int64) *node {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.WithoutCancel(t.Context()), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, address: l.Addr().String()}
	if n.locks, err = server.New(store, &server.Options{
		Identify: operator, Observer: &server.Observer{Wait: func(change int) { waits.Add(int64(change)) }},
	}); err != nil {
		t.Fatal(err)
	}
	n.http = front.Server(n.locks, nil)
	n.served.Go(func() { _ = n.http.Serve(l) })
	if err := n.locks.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	return n
}

// end ends it after the balancer has had some time to notice.
func (n *node) end(delay time.Duration) {
	n.locks.Drain()
	time.Sleep(delay)
	n.locks.EndWaits()
	if err := n.http.Shutdown(context.WithoutCancel(n.t.Context())); err != nil {
		n.t.Error(err)
	}
	n.served.Wait()
	if err := n.locks.Close(); err != nil {
		n.t.Error(err)
	}
}

// Behind a balancer two servers end and start again in turn, under holders and under
// callers that wait. No hold is lost, and nobody who waits is told anything that makes him
// give up.
func TestDrainBehindBalancer(t *testing.T) {
	thorough.Test(t, "needs a balancer")
	const each = 50
	store := lend(memlock.New(nil))
	var waits atomic.Int64
	nodes := []*node{startNode(t, "127.0.0.1:0", store, &waits), startNode(t, "127.0.0.1:0", store, &waits)}
	url := engines.HAProxy(t, nodes[0].address, nodes[1].address)
	far := dial(t, url)
	c := holdfast.New(far, &holdfast.Options{TTL: 5 * time.Second})
	var holds []*holdfast.Hold
	for i := range each {
		h, err := c.Lock(t.Context(), fmt.Sprint("r", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	transport := &http.Transport{}
	var waiting sync.WaitGroup
	for i := range each {
		waiting.Go(func() { waitThrough(t, transport, url, fmt.Sprint("r", i)) })
	}
	ask.Until(t, "all wait", func() bool { return waits.Load() == each })
	for i, n := range nodes {
		n.end(time.Second)
		nodes[i] = startNode(t, n.address, store, &waits)
		time.Sleep(time.Second) // of the balancer's checks
	}
	for _, h := range holds {
		if err := context.Cause(h.Context()); err != nil {
			t.Errorf("%s is lost: %v", h.Resource(), err)
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Errorf("unlock of %s: %v", h.Resource(), err)
		}
	}
	waiting.Wait()
	transport.CloseIdleConnections()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		n.end(0)
	}
}

// waitThrough waits for the resource as a caller without a library does: whatever is not
// definite, and a wait that has ended, is repeated with the same hold ID.
func waitThrough(t *testing.T, over *http.Transport, url, resource string) {
	id := driver.NewHoldID()
	for began := time.Now(); time.Since(began) < time.Minute; {
		body := fmt.Sprintf(`{"resource":%q,"holdId":%q,"ttlMs":60000,"waitMs":20000}`, resource, id)
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, url+wire.AcquirePath, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", wire.JSON)
		a, err := over.RoundTrip(r)
		if err != nil {
			continue
		}
		var refusal wire.Refusal
		err = json.NewDecoder(a.Body).Decode(&refusal)
		_ = a.Body.Close()
		switch {
		case a.StatusCode == http.StatusOK && err == nil:
			return
		case err != nil || a.Header.Get("Content-Type") != wire.ProblemJSON:
			continue // the balancer's
		}
		switch kind := refusal.Kind(); kind {
		case wire.KindHeld, wire.KindUnknown, wire.KindDraining:
		default:
			t.Errorf("who waits for %s is refused: %s", resource, kind)
			return
		}
	}
	t.Errorf("who waits for %s waited in vain", resource)
}
