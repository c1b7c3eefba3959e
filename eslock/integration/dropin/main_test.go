// Package dropin_test tests the drop-in for es-distributed-lock against servers.
package dropin_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/eslock"
	lock "github.com/holdfast-go/holdfast/eslock/compat/es-distributed-lock"
	"github.com/holdfast-go/holdfast/lab/esnode"
	"github.com/holdfast-go/holdfast/lab/interop/oldeslock"
)

// Locks are never closed, so they must not leave goroutines behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an index of a node, in place of distributed-locks, with the functions of
// programs with the drop-in and with es-distributed-lock. All clocks are right.
type fixture struct {
	esnode.Node
	t     *testing.T
	index string
	wire  *wire
}

// onBoth runs a test on each kind of server, with an index that does not exist yet.
func onBoth(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	esnode.OnBoth(t, func(t *testing.T, n esnode.Node) {
		index := n.Index(t)
		test(t, &fixture{Node: n, t: t, index: index, wire: &wire{node: n.InIndex(index)}})
	})
}

// lock returns a Lock of the drop-in.
func (f *fixture) lock(id, owner string) *lock.Lock { return lock.NewLock(f.wire, id).WithOwner(owner) }

func (f *fixture) old(id, owner string) *oldeslock.Lock {
	return oldeslock.New(f, f.index, id, owner, time.Now)
}

// acquired returns a Lock that has the lock.
func (f *fixture) acquired(id, owner string, ttl time.Duration) *lock.Lock {
	f.t.Helper()
	l := f.lock(id, owner)
	f.must(l.Acquire(f.t.Context(), ttl))
	f.is(l, true, false)
	return l
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) is(l *lock.Lock, acquired, released bool) {
	f.t.Helper()
	if a, r := l.IsAcquired(), l.IsReleased(); a != acquired || r != released {
		f.t.Errorf("acquired %v, released %v; want %v, %v", a, r, acquired, released)
	}
}

// refused compares errors as programs with es-distributed-lock do.
func (f *fixture) refused(err error) {
	f.t.Helper()
	if err == nil || err.Error() != "lock held by other client" {
		f.t.Errorf("error %v, want ErrHeld", err)
	}
}

// eventually polls until so returns true.
func (f *fixture) eventually(what string, so func() bool) {
	f.t.Helper()
	for began := time.Now(); !so(); <-time.After(5 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			f.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// source returns the document of an ID in the view of old programs.
func (f *fixture) source(id string) map[string]any {
	f.t.Helper()
	return f.Source(f.t, f.index, id)
}

// oldExpires returns when the lock expires in the view of old programs.
func (f *fixture) oldExpires(id string) time.Time {
	f.t.Helper()
	expires, err := time.Parse(time.RFC3339Nano, f.source(id)["expires"].(string))
	f.must(err)
	return expires
}

// wire is the connection to the node. It counts requests.
type wire struct {
	node eslock.Performer

	mu   sync.Mutex
	sent []*http.Request
}

// Perform implements eslock.Performer.
func (w *wire) Perform(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent = append(w.sent, req)
	w.mu.Unlock()
	return w.node.Perform(req)
}

// requests returns the requests since the last call.
func (w *wire) requests() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}
