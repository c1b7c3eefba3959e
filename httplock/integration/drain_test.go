package httplock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/command"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// Behind a balancer two servers are ended by TERM and restarted in turn, under holders,
// under waiting callers and under callers that come and go. No hold is lost, each answer
// comes from a server, and each server that ends sends its waiters away once. The
// balancer repeats nothing, so an answer missing from an ending server would be noticed.
func TestDrainBehindBalancer(t *testing.T) {
	thorough.Test(t, "needs a balancer")
	const (
		each   = 50
		rounds = 3
	)
	program, err := command.Build(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	store := engines.NewRedis(t).URL
	var servers []*engines.Serve
	var addresses []string
	for range 2 {
		s := engines.NewServe(t, program, store, "--drain-delay", engines.HAProxyNotices.String())
		servers, addresses = append(servers, s), append(addresses, s.Address())
	}
	c := &callers{T: t, url: engines.HAProxy(t, addresses...), over: &http.Transport{MaxIdleConnsPerHost: each}}
	holds := newHolders(t, c.url, each)
	var waiting, passing sync.WaitGroup
	for i := range each {
		waiting.Go(func() { c.wait(fmt.Sprint("r", i)) })
	}
	allWait := func() bool { return t.Failed() || waits(t, servers) == each }
	ask.Until(t, "all wait", allWait)
	over := make(chan struct{})
	passing.Go(func() { holds.renew(over) })
	for i := range 4 {
		passing.Go(func() { c.comeAndGo(fmt.Sprint("free", i), over) })
	}
	// Failed callers no longer wait.
	for end := 0; end < rounds*len(servers) && !t.Failed(); end++ {
		s, began := servers[end%len(servers)], time.Now()
		c.ended.Add(1)
		s.Terminate(t)
		if took := time.Since(began); took > engines.HAProxyNotices+lastAnswers {
			t.Errorf("the end of a server took %v", took)
		}
		s.Restart(t)
		ask.Until(t, "all wait again", allWait)
		time.Sleep(engines.HAProxyNotices) // otherwise no server is left when the other one ends
	}
	close(over)
	passing.Wait()
	holds.release()
	waiting.Wait()
	c.over.CloseIdleConnections()
	t.Logf("%d acquires and releases by callers that come and go; %d waits were sent away", c.passed.Load(), c.sentAway.Load())
}

// lastAnswers is how long a server may take to answer pending requests after its waits
// have ended. It would cut off requests after 15 s.
const lastAnswers = 10 * time.Second

var waitsLine = regexp.MustCompile(`(?m)^holdfast_server_waits (\d+)$`)

// waits returns the number of acquires that wait at the servers.
func waits(t *testing.T, servers []*engines.Serve) (n int) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	for _, s := range servers {
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, s.URL+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		m := waitsLine.FindSubmatch(text)
		if err != nil || m == nil {
			t.Fatalf("the metrics have no waits: %v\n%s", err, text)
		}
		here, _ := strconv.Atoi(string(m[1])) // the pattern ensures a number
		n += here
	}
	return n
}

// holders are holds of the library, which must not notice anything.
type holders struct {
	*testing.T
	locks *holdfast.Client
	holds []*holdfast.Hold
}

func newHolders(t *testing.T, url string, n int) *holders {
	t.Helper()
	h := &holders{T: t}
	// With a long TTL they are not lost merely because the machine is busy.
	h.locks = holdfast.New(dial(t, url), &holdfast.Options{TTL: time.Minute})
	for i := range n {
		hold, err := h.locks.Lock(t.Context(), fmt.Sprint("r", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		h.holds = append(h.holds, hold)
	}
	return h
}

// renew renews the holds one after the other, repeatedly.
func (h *holders) renew(over <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		default:
		}
		hold := h.holds[i%len(h.holds)]
		if err := hold.Renew(context.WithoutCancel(h.Context()), 0); err != nil {
			h.Errorf("a renewal of %s failed: %v", hold.Resource(), err)
			return
		}
	}
}

func (h *holders) release() {
	h.Helper()
	for _, hold := range h.holds {
		if err := context.Cause(hold.Context()); err != nil {
			h.Errorf("%s is lost: %v", hold.Resource(), err)
		}
		if err := hold.Unlock(h.Context()); err != nil {
			h.Errorf("unlock of %s: %v", hold.Resource(), err)
		}
	}
	if err := h.locks.Close(); err != nil {
		h.Error(err)
	}
}

// callers use HTTP without a library.
type callers struct {
	*testing.T
	url      string
	over     *http.Transport
	ended    atomic.Int64 // the number of ended servers
	passed   atomic.Int64
	sentAway atomic.Int64
}

// post sends a request that a server must answer. It returns "" for success, or the kind
// of the refusal.
func (c *callers) post(path, body string) (refused wire.Kind, ok bool) {
	r, err := http.NewRequestWithContext(context.WithoutCancel(c.Context()), http.MethodPost, c.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		c.Error(err)
		return "", false
	}
	r.Header.Set("Content-Type", wire.JSON)
	a, err := c.over.RoundTrip(r)
	if err != nil {
		c.Errorf("%s: %v", path, err)
		return "", false
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.Header.Get(wire.StoreHeader) == "" {
		c.Errorf("%s: not answered by a server: %s %v %s", path, a.Status, err, text)
		return "", false
	}
	if a.StatusCode == http.StatusOK {
		return "", true
	}
	var refusal wire.Refusal
	if err := json.Unmarshal(text, &refusal); err != nil {
		c.Errorf("%s: %s %s", path, a.Status, text)
		return "", false
	}
	return refusal.Kind(), true
}

// wait waits for a resource. It repeats an ended wait with the same hold ID.
func (c *callers) wait(resource string) {
	body := fmt.Sprintf(`{"resource":%q,"holdId":%q,"ttlMs":60000,"waitMs":20000}`, resource, driver.NewHoldID())
	for sentAway := int64(0); ; {
		switch kind, ok := c.post(wire.AcquirePath, body); {
		case !ok:
			return
		case kind == "":
			return
		case kind == wire.KindHeld:
		case kind == wire.KindDraining && sentAway < c.ended.Load():
			sentAway++
			c.sentAway.Add(1)
		default:
			c.Errorf("a waiter for %s is refused: %s, after it was sent away %d times", resource, kind, sentAway)
			return
		}
	}
}

// comeAndGo repeatedly locks and unlocks a resource that nobody else uses.
func (c *callers) comeAndGo(resource string, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		default:
		}
		id := driver.NewHoldID()
		for _, q := range [][2]string{
			{wire.AcquirePath, fmt.Sprintf(`{"resource":%q,"holdId":%q,"ttlMs":60000}`, resource, id)},
			{wire.ReleasePath, fmt.Sprintf(`{"holds":[{"resource":%q,"holdId":%q}]}`, resource, id)},
		} {
			if kind, ok := c.post(q[0], q[1]); !ok || kind != "" {
				c.Errorf("a caller that comes and goes is refused by %s: %q", q[0], kind)
				return
			}
			c.passed.Add(1)
		}
	}
}
