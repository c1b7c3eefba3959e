// Package eslock_test holds the tests of package eslock that need a server.
package eslock_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/tests/engines"
	"github.com/holdfast-go/holdfast/tests/esnode"
)

func TestMain(m *testing.M) {
	// Most of the time they wait, for a network or a clock.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// onBoth runs a test on each kind of server.
func onBoth(t *testing.T, test func(t *testing.T, n node)) {
	esnode.OnBoth(t, func(t *testing.T, n esnode.Node) { test(t, node{n}) })
}

// node is a server as a client without a library sees it.
type node struct{ esnode.Node }

func newNode(t testing.TB, e engines.Engine) node { return node{esnode.New(t, e)} }

// in is the node of a subtest.
func (n node) in(t testing.TB) node { return newNode(t, n.Engine) }

func newStore(t testing.TB, n eslock.Performer, opts *eslock.Options) *eslock.Store {
	t.Helper()
	s := eslock.New(n, opts)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func request(resource, lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: time.Hour}
}

func shared(q driver.AcquireRequest, limit int) driver.AcquireRequest {
	q.Mode, q.Limit = driver.Shared, limit
	return q
}

func mustAcquire(t testing.TB, s driver.Store, q driver.AcquireRequest) driver.HoldRef {
	t.Helper()
	g, err := s.Acquire(t.Context(), q)
	if err != nil {
		t.Fatalf("acquire of %q by %q: %v", q.Resource, q.LockID, err)
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
}

// eventually polls until is true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Errorf("waited a minute in vain until %s", what)
			return
		}
	}
}
