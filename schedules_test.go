package holdfast_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

var (
	schedulesFor  = flag.Duration("schedules.for", 2*time.Second, "for how long TestSchedules tries random schedules")
	schedulesSeed = flag.Uint64("schedules.seed", 0, "the one schedule that TestSchedules tries; 0: random ones")
)

// TestSchedules lets Clients do whatever they can, in random order, on bad networks,
// with user code that is slow or never returns, on a machine that sleeps now and then.
// An observer in the store sees that a resource is granted only once the contexts of
// all holds which that excludes have ended, and that tokens rise; in the end nothing is
// held and no goroutine is left. The seed chooses what happens; in which order
// goroutines run is the machine's choice.
func TestSchedules(t *testing.T) {
	if *schedulesSeed != 0 {
		schedule(t, *schedulesSeed)
		return
	}
	n, grants := 0, 0
	for began := time.Now(); time.Since(began) < *schedulesFor && !t.Failed(); n++ {
		grants += schedule(t, rand.Uint64())
	}
	t.Logf("%d schedules, %d grants", n, grants)
	if n > 0 && grants < 20*n {
		t.Error("too few grants to show anything")
	}
}

// lag is for how long a context may outlive its hold when the machine has slept:
// timers do not notice, so that the Client looks once a second.
const lag = 1100 * time.Millisecond

// observer is a store that judges what it grants by the holds that are known.
type observer struct {
	driver.Store
	driver.Watcher
	t    *testing.T
	seed uint64

	mu     sync.Mutex
	known  map[string][]*holdfast.Hold // by resource: those that may be alive
	grants map[string][]observed       // of the last few TTLs
	tokens map[string]uint64           // the last ones
	seen   map[driver.HoldID]struct{}  // granted
	slept  time.Time                   // when the machine last did
	handed int                         // to the Clients
}

type observed struct {
	id    driver.HoldID
	mode  driver.Mode
	token uint64
}

func (o *observer) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	g, err := o.Store.Acquire(ctx, q)
	if err != nil {
		return g, err
	}
	if _, repeat := o.seen[q.HoldID]; repeat && o.tokens[q.Resource] >= g.Token {
		return g, nil
	}
	o.seen[q.HoldID] = struct{}{}
	if last := o.tokens[q.Resource]; g.Token <= last {
		o.t.Errorf("seed %d: %q: token %d after %d", o.seed, q.Resource, g.Token, last)
	}
	o.tokens[q.Resource] = g.Token
	o.grants[q.Resource] = append(o.grants[q.Resource], observed{q.HoldID, q.Mode, g.Token})
	shared := 0
	for _, h := range o.alive(q.Resource) {
		switch {
		case h.ID() == q.HoldID:
		case h.Mode() == holdfast.Exclusive || q.Mode == holdfast.Exclusive:
			o.overlap(h, q.Mode, g.Token)
		default:
			shared++
		}
	}
	if q.Limit > 0 && shared >= q.Limit && time.Since(o.slept) > lag {
		o.t.Errorf("seed %d: %q: %d shared holds of at most %d", o.seed, q.Resource, shared+1, q.Limit)
	}
	return g, nil
}

// alive returns the holds of the resource whose contexts have not ended.
func (o *observer) alive(resource string) (hs []*holdfast.Hold) {
	for _, h := range o.known[resource] {
		if h.Context().Err() == nil {
			hs = append(hs, h)
		}
	}
	o.known[resource] = hs
	return hs
}

// justSlept: a context may be alive though the time of its hold is over.
func (o *observer) justSlept() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.slept) <= lag
}

func (o *observer) overlap(h *holdfast.Hold, mode driver.Mode, token uint64) {
	if time.Since(o.slept) > lag {
		o.t.Errorf("seed %d: %q was granted (%v, token %d) while the context of its %v hold with token %d was alive",
			o.seed, h.Resource(), mode, token, h.Mode(), h.Token())
	}
}

// granted makes a hold known, unless another was granted the resource before that.
func (o *observer) granted(h *holdfast.Hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handed++
	o.known[h.Resource()] = append(o.known[h.Resource()], h)
	if h.Context().Err() != nil {
		return
	}
	for _, g := range o.grants[h.Resource()] {
		if g.token > h.Token() && (g.mode == holdfast.Exclusive || h.Mode() == holdfast.Exclusive) {
			o.overlap(h, g.mode, g.token)
		}
	}
}

// schedule runs one and returns how many grants there were.
func schedule(t *testing.T, seed uint64) (grants int) {
	defer func() { // synctest.Test does not return to a test that failed
		if t.Failed() {
			t.Errorf("to try that again: -schedules.seed=%d", seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		machine := newSleeper()
		store := memlock.New(&memlock.Options{Now: machine.now})
		o := &observer{
			Store: store, Watcher: store, t: t, seed: seed, known: make(map[string][]*holdfast.Hold),
			grants: make(map[string][]observed), tokens: make(map[string]uint64), seen: make(map[driver.HoldID]struct{}),
		}
		never, over := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		rnd := rand.New(rand.NewPCG(seed, 0))
		var all sync.WaitGroup
		for i := range uint64(2 + rnd.IntN(3)) {
			network := badNetwork(seed<<8+i, never)
			if rnd.IntN(3) == 0 {
				network = func(drivertest.Call) drivertest.Fault { return drivertest.Fault{} }
			}
			p := &player{t: t, o: o, seed: seed<<8 + i, store: faulty(t, o, network), machine: machine, over: over}
			p.open()
			for j := range uint64(1 + rnd.IntN(4)) {
				all.Go(func() {
					for n := uint64(0); ctx.Err() == nil; n++ {
						p.play(ctx, rand.New(rand.NewPCG(p.seed, j<<32+n)))
					}
				})
			}
			all.Go(func() {
				<-ctx.Done()
				for p.turns.Load() > 0 {
					time.Sleep(time.Second)
				}
				p.close()
			})
		}
		all.Wait()
		close(over)                  // what never returned does
		time.Sleep(30 * time.Second) // the longest TTL, its delay, and requests that are late
		mustBeFree(t, store, "")
		grants = o.handed
	})
	return grants
}

// player is a process: one Client after another.
type player struct {
	t       *testing.T
	o       *observer
	seed    uint64
	store   driver.Store
	machine *sleeper
	over    <-chan struct{}
	client  atomic.Pointer[holdfast.Client]
	turns   atomic.Int64 // under way
}

func (p *player) open() {
	var hooks atomic.Uint64
	slow := func() {
		switch n := hooks.Add(1) * (p.seed | 1) % 50; {
		case n == 0 && p.seed%4 == 0:
			<-p.over
		case 0 < n && n < 10: // the race detector of Go 1.26 may crash where a bubble's timer is over at once
			select {
			case <-time.After(time.Duration(n) * 300 * time.Millisecond):
			case <-p.over:
			}
		}
	}
	opts := holdfast.WithClock(p.machine.clock, &holdfast.Options{LeaveHolds: p.seed%5 == 0})
	if p.seed%3 > 0 {
		opts.Trace = &holdfast.Trace{
			AttemptStart: func(ctx context.Context, _ holdfast.AttemptInfo) context.Context { slow(); return ctx },
			AttemptEnd:   func(context.Context, holdfast.AttemptInfo) { slow() },
			WaitStart:    func(ctx context.Context, _ holdfast.WaitInfo) context.Context { slow(); return ctx },
			WaitEnd:      func(context.Context, holdfast.WaitInfo) { slow() },
			HoldStart:    func(ctx context.Context, _ holdfast.HoldInfo) context.Context { slow(); return ctx },
			HoldEnd:      func(context.Context, holdfast.HoldInfo) { slow() },
			Renewed:      func(context.Context, holdfast.CallInfo) { slow() },
			Released:     func(context.Context, holdfast.CallInfo) { slow() },
			Failed:       func(context.Context, holdfast.FailInfo) { slow() },
		}
		opts.Logger = slog.New(hooked{handle: slow, enabled: slow})
	}
	p.client.Store(unswept(p.store, opts))
}

func (p *player) close() {
	began := time.Now()
	_ = p.client.Load().Close()
	p.within(began, 5*time.Second, "Close")
}

func (p *player) within(began time.Time, limit time.Duration, what string) {
	if took := time.Since(began); took > limit {
		p.t.Errorf("seed %d: %s took %v", p.o.seed, what, took)
	}
}

// play is one turn: a lock, and what becomes of it; or something that happens to all.
func (p *player) play(ctx context.Context, rnd *rand.Rand) {
	p.turns.Add(1)
	defer p.turns.Add(-1)
	upTo := func(d time.Duration) time.Duration { return time.Duration(1 + rnd.Int64N(int64(d))) }
	switch n := rnd.IntN(200); {
	case n == 0:
		p.o.mu.Lock()
		defer p.o.mu.Unlock()
		p.machine.sleep(upTo(10 * time.Second))
		p.o.slept = time.Now()
		return
	case n < 4:
		p.close()
		p.open()
		return
	}
	c := p.client.Load()
	n := rnd.IntN(3)
	resource := fmt.Sprint("r", n)
	lo := &holdfast.LockOptions{
		TTL:           holdfast.MinTTL + upTo(5*time.Second),
		TakeoverDelay: time.Duration(rnd.IntN(2)) * upTo(time.Second),
		NoKeepAlive:   rnd.IntN(4) == 0,
	}
	if rnd.IntN(4) == 0 {
		lo.LockID = fmt.Sprint("id", rnd.IntN(2))
	}
	asked, cancel := context.WithTimeout(ctx, upTo(10*time.Second))
	defer cancel()
	if rnd.IntN(10) == 0 {
		err := c.Do(asked, resource, lo, func(ctx context.Context) error {
			began := time.Now()
			_ = c.Do(ctx, resource, nil, func(context.Context) error {
				if ctx.Err() == nil && !p.o.justSlept() {
					p.t.Errorf("seed %d: %q was granted within its own Do", p.o.seed, resource)
				}
				return nil
			})
			p.within(began, 10*time.Second, "a Do in a Do")
			select {
			case <-ctx.Done():
			case <-time.After(upTo(time.Second)):
			}
			return nil
		})
		p.expected("Do", err)
		return
	}
	take := []func(context.Context, string, *holdfast.LockOptions) (*holdfast.Hold, error){c.Lock, c.TryLock, c.RLock, c.TryRLock}
	kind := rnd.IntN(len(take))
	if kind >= 2 {
		lo.Limit = n // of each resource its own
	}
	h, err := take[kind](asked, resource, lo)
	if err != nil {
		p.expected("Lock", err)
		time.Sleep(upTo(100 * time.Millisecond))
		return
	}
	p.o.granted(h)
	for range rnd.IntN(4) {
		select {
		case <-h.Context().Done():
		case <-time.After(upTo(3 * time.Second)):
		}
		switch rnd.IntN(6) {
		case 0:
			short, cancel := context.WithTimeout(ctx, upTo(time.Second))
			p.expected("Renew", h.Renew(short, 0))
			cancel()
		case 1:
			p.expected("Renew", h.Renew(ctx, holdfast.MinTTL+upTo(5*time.Second)))
		case 2:
			_, err := c.Admin().RenewID(ctx, h.LockID(), holdfast.MinTTL+upTo(5*time.Second))
			p.expected("RenewID", err)
		}
	}
	began := time.Now()
	switch rnd.IntN(8) {
	case 0:
		p.expected("UnlockAfter", h.UnlockAfter(ctx, upTo(2*time.Second)))
	case 1: // forgotten, but it ends
		go func() {
			time.Sleep(upTo(10 * time.Second))
			_ = h.Unlock(context.Background())
		}()
		return
	default:
		p.expected("Unlock", h.Unlock(ctx))
	}
	p.within(began, 7*time.Second, "Unlock")
	if h.Context().Err() == nil {
		p.t.Errorf("seed %d: the context of %q is alive after Unlock", p.o.seed, resource)
	}
}

// expected fails if err is nothing that the operation may come to.
func (p *player) expected(what string, err error) {
	for _, may := range []error{
		nil, holdfast.ErrHeld, holdfast.ErrLost, holdfast.ErrReleased, holdfast.ErrClosed, holdfast.ErrTTLTooShort,
		drivertest.ErrFault, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, may) {
			return
		}
	}
	p.t.Errorf("seed %d: %s: %v", p.o.seed, what, err)
}
