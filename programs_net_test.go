package holdfast_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

const (
	lateMost  = 40 * time.Second // the largest delay of a request
	mostStall = 4 * time.Second  // how long a call of the store may ignore its context
	// memory is how long after a fault an operation may still be affected.
	memory = 15 * time.Second
	// copiesArrive is how long after a release has found a hold the clean-up still finds a
	// copy of its only request.
	copiesArrive = 10 * time.Second
)

// node is a Client and its connection to the store: it is the driver.Store of that Client, in
// front of a FaultStore, in front of a server.
type node struct {
	*drivertest.FaultStore
	r          *run
	name       string
	generation int // the number of earlier nodes of the process
	client     *holdfast.Client
	clock      *atomic.Int64 // how far the clock of its process is ahead, in ns
	leaves     bool          // Options.LeaveHolds
	percent    int           // of its calls have faults
	closing    atomic.Bool
	forcing    atomic.Int32 // running calls of ForceRelease
	dropped    atomic.Bool  // results of a batch were dropped
	doing      atomic.Int32 // running functions of Do

	mu    sync.Mutex // locked after the judge's mutex, never before it
	rnd   *rand.Rand
	fault time.Time // when a fault last had an effect on its caller, maybe in the future
	stall time.Time // until when a call last ignored its context
	down  time.Time // until when no request gets through
}

// disturbed reports whether an event since, or shortly before, may be the reason of a failed
// operation.
func (n *node) disturbed(since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fault.After(since.Add(-memory))
}

func (n *node) stalled(since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stall.After(since)
}

// outage lets nothing through for the given time.
func (n *node) outage(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = time.Now().Add(d)
}

// upTo returns a random duration of at least 1 ms: Go 1.26 may crash if a timer of a bubble
// fires at once.
func upTo(rnd *rand.Rand, d time.Duration) time.Duration {
	return time.Millisecond + time.Duration(rnd.Int64N(int64(d)))
}

// disturb decides what happens to a call.
func (n *node) disturb(c drivertest.Call) drivertest.Fault {
	what, fault := n.decide(c)
	if what != "" {
		n.r.say("      fault: %s %s %d is %s", n.name, c.Op, c.N, what)
	}
	return fault
}

func (n *node) decide(c drivertest.Call) (what string, fault drivertest.Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	switch {
	case !now.Before(n.r.quietFrom):
		return "", fault
	case now.Before(n.down):
		what = "in an outage"
		if fault.LoseRequest = n.rnd.IntN(2) == 0; !fault.LoseRequest {
			fault.HoldRequest = after(n.down.Sub(now))
			n.fault = n.down
		}
	case n.rnd.IntN(100) >= n.percent:
		return "", fault
	default:
		what, fault = n.pick(c)
	}
	if now.After(n.fault) {
		n.fault = now
	}
	return what, fault
}

// pick returns a fault. n.mu is held.
func (n *node) pick(c drivertest.Call) (what string, fault drivertest.Fault) {
	now := time.Now()
	short, long := upTo(n.rnd, 3*time.Second), upTo(n.rnd, lateMost)
	if c.Op == drivertest.Watch && n.rnd.IntN(2) == 0 {
		if n.rnd.IntN(2) == 0 {
			return "cut", drivertest.Fault{Cut: after(short)}
		}
		return "deaf", drivertest.Fault{HoldSignals: after(long)}
	}
	switch n.rnd.IntN(10) {
	case 0, 1:
		return "lost", drivertest.Fault{LoseRequest: true}
	case 2, 3:
		return "answered in vain", drivertest.Fault{LoseReply: true}
	case 4:
		n.fault = now.Add(short)
		return "late", drivertest.Fault{HoldRequest: after(short)}
	case 5:
		n.fault = now.Add(long)
		return "very late", drivertest.Fault{HoldRequest: after(long)}
	case 6:
		return "late, and lost for its caller", drivertest.Fault{HoldRequest: after(long), LoseReply: true}
	case 7:
		n.fault = now.Add(short)
		return "answered late", drivertest.Fault{HoldReply: after(short)}
	case 8:
		if c.Op == drivertest.Acquire {
			n.fault = now.Add(long)
			return "behind a release", drivertest.Fault{Behind: drivertest.Release}
		}
		if len(c.Refs) > 1 {
			n.dropped.Store(true)
			return "answered in part", drivertest.Fault{DropLast: 1}
		}
		fallthrough
	default:
		n.fault = now.Add(long)
		return "never answered", drivertest.Fault{HoldReply: n.r.never}
	}
}

// ignore lets a call take long now and then, whatever its context says.
func (n *node) ignore() {
	n.mu.Lock()
	if !time.Now().Before(n.r.quietFrom) || n.rnd.IntN(400) >= n.percent {
		n.mu.Unlock()
		return
	}
	d := upTo(n.rnd, mostStall)
	n.stall = time.Now().Add(d)
	n.fault = n.stall
	n.mu.Unlock()
	n.r.say("      fault: a call of %s takes %v, whatever its context says", n.name, d)
	time.Sleep(d)
}

// tell is the user code that the Client calls, its Logger and its Trace: now and then it is
// slow or does not return.
func (n *node) tell() {
	n.mu.Lock()
	quiet := !time.Now().Before(n.r.quietFrom)
	wait, returns := upTo(n.rnd, 3*time.Second), n.rnd.IntN(500) > 0
	slow := n.rnd.IntN(5) == 0
	n.mu.Unlock()
	switch {
	case quiet:
	case !returns:
		<-n.r.never
	case slow:
		select {
		case <-after(wait):
		case <-n.r.never:
		}
	}
}

// again repeats an arrived request now and then, as a proxy does.
func (n *node) again(send func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Now().Before(n.r.quietFrom) && n.rnd.IntN(600) < n.percent {
		time.AfterFunc(upTo(n.rnd, 8*time.Second), send)
	}
}

func (n *node) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	n.r.asked(n, q)
	n.ignore()
	g, err := n.FaultStore.Acquire(ctx, q)
	n.ignore()
	n.r.mu.Lock()
	defer n.r.mu.Unlock()
	n.r.note("   %s %.6s of %s: answer %d, %v", n.name, q.HoldID, q.Details.Comment, g.Token, err)
	if err != nil && !errors.Is(err, driver.ErrHeld) {
		n.r.holding(q.HoldID).unknown = true
	}
	return g, err
}

func (n *node) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	n.ignore()
	rs, err := n.FaultStore.Renew(ctx, qs)
	n.ignore()
	for i, q := range qs {
		r := driver.RenewResult{Err: err}
		if i < len(rs) {
			r = rs[i]
		}
		n.r.say("   %s renews %.6s, token %d, for %v: %v, %v", n.name, q.HoldID, q.Token, q.TTL, r.Left, r.Err)
	}
	return rs, err
}

func (n *node) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	n.r.releases(n, qs)
	n.ignore()
	rs, err := n.FaultStore.Release(ctx, qs)
	n.ignore()
	n.r.say("   %s has released: %+v, %v", n.name, rs, err)
	return rs, err
}

func (n *node) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	n.ignore()
	return n.FaultStore.Watch(ctx, resource)
}

// server is the store as the requests of one node reach it. The judge watches it.
type server struct {
	*memlock.Store
	n *node
}

func (s *server) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	s.n.again(func() { _, _ = s.Acquire(context.WithoutCancel(ctx), q) })
	s.n.r.mu.Lock()
	defer s.n.r.mu.Unlock()
	g, err := s.Store.Acquire(ctx, q)
	s.n.r.decided(s.n, q, g, err)
	return g, err
}

func (s *server) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	s.n.again(func() { _, _ = s.Renew(context.WithoutCancel(ctx), qs) })
	return s.Store.Renew(ctx, qs)
}

func (s *server) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	s.n.again(func() { _, _ = s.Release(context.WithoutCancel(ctx), qs) })
	s.n.r.mu.Lock()
	defer s.n.r.mu.Unlock()
	rs, err := s.Store.Release(ctx, qs)
	for i, r := range rs {
		if !r.Found {
			continue
		}
		if h := s.n.r.holding(qs[i].HoldID); h.found.IsZero() {
			h.found = time.Now()
		}
		if qs[i].After == 0 {
			s.n.r.freeSince[qs[i].Resource] = time.Now()
		}
	}
	return rs, err
}

var (
	_ driver.Watcher = (*node)(nil)
	_ driver.Queue   = (*node)(nil)
)
