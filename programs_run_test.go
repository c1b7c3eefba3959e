package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

const (
	longestTTL   = 30 * time.Second // other than Forever
	longestDelay = 5 * time.Second
	// aftermath is how long requests under way may still have an effect.
	aftermath = lateMost + max(longestTTL+longestDelay, driver.PlainPlaceTTL) + time.Second
	// cleanedWithin is how soon a Client releases a useless grant after the store answers
	// again: after the longest pause of a clean-up and the timeout before it.
	cleanedWithin = 20 * time.Second
	// slowest is how slow the clock of a process may be, in millionths: less than the
	// shortest margin in the longest TTL.
	slowest = 1500
	// stuckAfter is longer than any program takes.
	stuckAfter = 15 * time.Minute
)

// run is one run of a program.
type run struct {
	program
	judge
	shape
	store     *memlock.Store
	machine   *sleeper        // of all processes: while they are suspended, nothing runs
	ctx       context.Context // ends when the program is stuck
	never     chan struct{}   // unanswered calls return when it is closed
	quietFrom time.Time       // no more faults
	slots     []atomic.Pointer[node]
	nodes     []*node // all nodes there were; guarded by mu
}

func (p program) run(t *testing.T) *run {
	r := &run{program: p, shape: p.shape()}
	defer func() {
		if e := recover(); e != nil { // goroutines leaked, or all of them wait
			r.wrong("bubble: %v", e)
		}
	}()
	synctest.Test(t, func(*testing.T) { r.all() })
	return r
}

// all runs the program in a bubble.
func (r *run) all() {
	rnd := r.random("run", 0)
	r.machine, r.began, r.never = newSleeper(), time.Now(), make(chan struct{})
	r.calls, r.holdings, r.believed = make(map[string]*call), make(map[driver.HoldID]*holding), make(map[string][]*holding)
	r.grants, r.freeSince = make(map[string][]grant), make(map[string]time.Time)
	r.store = memlock.New(&memlock.Options{Now: r.machine.now})
	r.quietFrom = r.began.Add(upTo(rnd, 90*time.Second))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.ctx = ctx
	r.slots = make([]atomic.Pointer[node], r.clients)
	for i := range r.slots {
		r.open(i, 0)
	}
	r.workersDo(cancel, func(w int) {
		for i := range r.steps {
			if part := stepPart(w, i); r.has(part) {
				r.step(part, r.random(part, 0))
			}
		}
	})
	time.Sleep(max(time.Until(r.quietFrom), 0))
	r.deliver()
	time.Sleep(cleanedWithin)
	r.mustBeClean()
	time.Sleep(aftermath)
	r.calm.Store(true)
	r.mustBeEmpty("after the faults")
	r.workersDo(cancel, r.calmly)
	time.Sleep(time.Millisecond)
	r.mustBeEmpty("after calm locks")
	r.closeAll()
	cancel()
	close(r.never)
	for _, n := range r.nodes {
		_ = n.FaultStore.Close()
	}
}

// workersDo lets all workers do something, and fails if they do not finish.
func (r *run) workersDo(cancel func(), do func(worker int)) {
	var workers sync.WaitGroup
	for w := range r.workers {
		workers.Go(func() { do(w) })
	}
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	select {
	case <-done:
	case <-after(stuckAfter):
		r.mu.Lock()
		for _, c := range r.calls {
			r.accuse("stuck: %s waits since %v", c.name, c.began.Sub(r.began))
		}
		r.accuse("stuck: the program")
		r.mu.Unlock()
		cancel()
		<-done
	}
}

// open makes a new Client for the process with that number.
func (r *run) open(slot, generation int) {
	name := fmt.Sprintf("c%d.%d", slot, generation)
	rnd := r.random(name, 0)
	n := &node{r: r, name: name, generation: generation, clock: new(atomic.Int64), rnd: r.random(name, 1), leaves: rnd.IntN(6) == 0}
	if rnd.IntN(4) > 0 && r.has(faultPart(slot)) {
		n.percent = 1 + rnd.IntN(30)
	}
	opts := &holdfast.Options{Owner: name, LeaveHolds: n.leaves, NoSweep: true}
	if rnd.IntN(2) == 0 {
		opts.TTL = 2*time.Second + upTo(rnd, 8*time.Second)
	}
	if rnd.IntN(3) == 0 {
		opts.Margin = 49*time.Millisecond + upTo(rnd, 200*time.Millisecond)
	}
	if rnd.IntN(3) == 0 {
		opts.Poll = upTo(rnd, 2*time.Second)
	}
	if rnd.IntN(3) == 0 {
		opts.Trace, opts.Logger = fullTrace(n.tell), slog.New(hooked{n.tell, n.tell})
	}
	n.FaultStore = drivertest.NewFaultStore(&server{r.store, n}, n.disturb)
	slow := rnd.Int64N(slowest)
	n.client = holdfast.New(n, holdfast.WithClock(func() time.Duration {
		now := r.machine.clock()
		return now - time.Duration(int64(now)/1e6*slow-n.clock.Load())
	}, opts))
	r.mu.Lock()
	r.nodes = append(r.nodes, n)
	r.mu.Unlock()
	r.slots[slot].Store(n)
}

// shut closes a Client.
func (r *run) shut(name string, n *node) {
	r.say("%s: close %s", name, n.name)
	n.closing.Store(true)
	began := time.Now()
	err := n.client.Close()
	r.within(name+": Close", began, false)
	if err != nil && n.doing.Load() == 0 && !n.disturbed(began) && !r.jumped.After(began.Add(-memory)) {
		r.wrong("error: %s: Close: %v, but nothing was wrong", name, err)
	}
	if _, err := n.client.TryLock(context.Background(), "r", nil); !errors.Is(err, holdfast.ErrClosed) {
		r.wrong("error: %s: after Close: %v", name, err)
	}
	time.AfterFunc(lateMost+cleanedWithin, func() { r.releaseEndless(n) })
}

// deliver lets requests arrive that wait for a release (drivertest.Fault.Behind).
func (r *run) deliver() {
	r.mu.Lock()
	nodes := slices.Clone(r.nodes)
	r.mu.Unlock()
	for _, n := range nodes {
		for i := range r.resources {
			ref := driver.HoldRef{Resource: fmt.Sprint("r", i), LockID: "nobody", HoldID: driver.NewHoldID()}
			_, _ = n.FaultStore.Release(context.Background(), []driver.ReleaseRequest{{HoldRef: ref}})
		}
	}
}

// releaseEndless releases the holds without an end that a closed Client has left, when its
// requests have arrived.
func (r *run) releaseEndless(n *node) {
	for _, s := range r.list() {
		if s.Left == holdfast.Forever && s.Details.Owner == n.name {
			r.say("an operator releases %.6s", s.HoldID)
			_, _ = r.store.Release(context.Background(), []driver.ReleaseRequest{{HoldRef: s.Ref()}})
		}
	}
}

// list returns the holds in the store.
func (r *run) list() (ss []driver.Status) {
	for s, err := range r.store.List(context.Background(), driver.Filter{}) {
		if err != nil {
			r.wrong("store: %v", err)
			break
		}
		ss = append(ss, s)
	}
	return ss
}

// mustBeEmpty fails if the store has a hold or a place other than the holds that closed
// Clients leave.
func (r *run) mustBeEmpty(when string) {
	for _, s := range r.list() {
		r.wrong("left: %s the store has %q held by %s: hold %.6s, %s, %v left", when, s.Resource, s.Details.Owner, s.HoldID, s.Details.Comment, s.Left)
	}
	for p, err := range r.store.Waiters(context.Background(), driver.Filter{}) {
		r.wrong("left: %s the store has a place for %q of %s, %v left, asked %v ago, error %v", when, p.Resource, p.Owner, p.Left, p.Seen.Sub(p.Asked), err)
	}
}

// mustBeClean fails if the store has a hold that no caller has and that must not stay.
func (r *run) mustBeClean() {
	for _, s := range r.list() {
		r.mu.Lock()
		h := r.holding(s.HoldID)
		if !h.mayStay(s.Token) && !h.node.closing.Load() && !r.jumped.After(h.asked) {
			r.accuse("orphan: nobody has hold %.6s of %q, which the store granted %v ago to %s, %v after it was asked",
				s.HoldID, s.Resource, time.Since(h.arrived), h.node.name, h.arrived.Sub(h.asked))
		}
		r.mu.Unlock()
	}
}

// calmly acquires locks without faults: no caller waits while the resource is free.
func (r *run) calmly(w int) {
	rnd := r.random("calm", w)
	for i := range 3 {
		time.Sleep(upTo(rnd, time.Second))
		s := &session{r: r, n: r.slots[rnd.IntN(len(r.slots))].Load(), name: fmt.Sprintf("calm%d.%d", w, i), rnd: rnd}
		ctx, cancel := context.WithCancel(r.ctx)
		if s.one(3) {
			ctx, cancel = context.WithTimeout(r.ctx, upTo(rnd, time.Second))
		}
		c := &call{name: s.name, node: s.n, resource: "r0", waits: true, ctx: ctx}
		c.opts = &holdfast.LockOptions{Comment: s.name, Fair: s.one(2)}
		if s.one(4) {
			c.mode = holdfast.Shared
		}
		h, err := s.lock(c)
		s.judge("lock", c, err)
		cancel()
		if err != nil {
			continue
		}
		time.Sleep(upTo(rnd, time.Second))
		s.r.outcome(s.name+": Unlock", s.n, h.since, nil, h.hold.Unlock(r.ctx))
	}
}

// closeAll closes all Clients while they have holds and waiters.
func (r *run) closeAll() {
	var all sync.WaitGroup
	for i := range r.slots {
		n := r.slots[i].Load()
		rnd := r.random("close", i)
		o := &holdfast.LockOptions{TTL: longestTTL, TakeoverDelay: longestDelay, Fair: rnd.IntN(2) == 0}
		if !n.leaves && rnd.IntN(3) == 0 {
			o.TTL = holdfast.Forever
		}
		for _, resource := range []string{n.name, "last"} {
			all.Go(func() {
				h, err := n.client.Lock(r.ctx, resource, o)
				if err == nil {
					<-h.Context().Done()
					err = context.Cause(h.Context())
				}
				if !errors.Is(err, holdfast.ErrClosed) {
					r.wrong("error: %s: the last lock of %q ended with %v", n.name, resource, err)
				}
			})
		}
		all.Go(func() {
			time.Sleep(3 * time.Second)
			r.shut("end", n)
		})
	}
	all.Wait()
	r.mustHaveReleased()
	time.Sleep(aftermath)
	r.mustBeEmpty("in the end")
}

// mustHaveReleased fails if the store has holds of Clients that release theirs in Close.
func (r *run) mustHaveReleased() {
	for _, s := range r.list() {
		if slices.ContainsFunc(r.nodes, func(n *node) bool { return n.name == s.Details.Owner && !n.leaves }) {
			r.wrong("left: after Close the store has %q held by %s, %v left", s.Resource, s.Details.Owner, s.Left)
		}
	}
}

// suspend stops all machines for a time that their timers do not count.
func (r *run) suspend(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("all machines are suspended for %v", d)
	r.machine.sleep(d)
	r.jumped = time.Now()
}

// step is one step of a worker.
func (r *run) step(name string, rnd *rand.Rand) {
	time.Sleep(upTo(rnd, 4*time.Second))
	slot := rnd.IntN(len(r.slots))
	n := r.slots[slot].Load()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.ctx, upTo(rnd, 20*time.Second))
	defer cancel()
	switch rnd.IntN(40) {
	case 0, 1:
		r.suspend(upTo(rnd, lateMost))
	case 2:
		r.say("%s: an outage for %s", name, n.name)
		if n.percent > 0 {
			n.outage(upTo(rnd, 20*time.Second))
		}
	case 3:
		r.mu.Lock()
		r.note("%s: the clock of %s is ahead", name, n.name)
		n.clock.Add(int64(upTo(rnd, 5*time.Second)))
		r.jumped = time.Now()
		r.mu.Unlock()
	case 4, 5:
		r.shut(name, n)
		if r.slots[slot].Load() == n {
			r.open(slot, n.generation+1)
		}
	case 6:
		_, err := n.client.Admin().ReleaseID(ctx, sharedID(rnd))
		r.outcome(name+": ReleaseID", n, began, ctx, err)
	case 7:
		_, err := n.client.Admin().RenewID(ctx, sharedID(rnd), holdfast.MinTTL+upTo(rnd, longestTTL-time.Second))
		r.outcome(name+": RenewID", n, began, ctx, err, holdfast.ErrLost, holdfast.ErrReleased)
	case 8:
		n.forcing.Add(1)
		_, err := n.client.Admin().ForceRelease(ctx, r.resource(rnd), holdfast.HoldID{})
		n.forcing.Add(-1)
		r.outcome(name+": ForceRelease", n, began, ctx, err)
	case 9:
		_, err := n.client.Admin().Sweep(ctx)
		r.outcome(name+": Sweep", n, began, ctx, err)
	default:
		s := &session{r: r, n: n, name: name, rnd: rnd}
		s.play(r.ctx)
	}
}

func (s shape) resource(rnd *rand.Rand) string { return fmt.Sprint("r", rnd.IntN(s.resources)) }

func sharedID(rnd *rand.Rand) string { return fmt.Sprint("id", rnd.IntN(2)) }
