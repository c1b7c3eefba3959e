package adapt_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

var (
	programsFor  = flag.Duration("programs.for", 3*time.Second, "for how long TestPrograms runs random programs")
	programsSeed = flag.Uint64("programs.seed", 0, "the one program that TestPrograms runs; 0: random ones")
)

// TestPrograms runs random programs: goroutines of several processes use all adapters for the
// same resources, with functions that fail, panic, wait or ignore their ctx, on bad networks,
// while processes restart and an operator releases locks by force. A judge in the store sees
// each grant. The seed decides what happens, but not the order in which goroutines run.
func TestPrograms(t *testing.T) {
	if *programsSeed != 0 {
		t.Log(program(t, *programsSeed), "runs")
		return
	}
	lasts := *programsFor
	if testing.Short() {
		lasts = min(lasts, time.Second)
	}
	programs, runs := 0, 0
	for began := time.Now(); time.Since(began) < lasts && !t.Failed(); programs++ {
		runs += program(t, rand.Uint64())
	}
	t.Logf("%d programs, %d runs", programs, runs)
	if runs < 20*programs {
		t.Error("too few runs to show anything")
	}
}

// program runs one program and returns how often a function ran under a lock.
func program(t *testing.T, seed uint64) (runs int) {
	defer func() { // synctest.Test does not return to a failed test
		if t.Failed() {
			t.Errorf("to repeat it: -programs.seed=%d", seed)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		j := &judge{Store: memlock.New(nil), t: t, of: make(map[string]*record), evicted: make(map[driver.HoldID]time.Time)}
		for _, resource := range resources {
			j.of[resource] = new(record)
		}
		operator := newClient(t, j)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		var processes []*process
		rnd := rand.New(rand.NewPCG(seed, 0))
		for i := range uint64(2 + rnd.IntN(3)) {
			p := &process{j: j, ctx: ctx, sound: rnd.IntN(3) == 0}
			p.store = drivertest.NewFaultStore(j, p.network(rand.New(rand.NewPCG(seed<<8+i, 0))))
			t.Cleanup(func() { _ = p.store.Close() })
			p.start(rnd)
			processes = append(processes, p)
			for k := range uint64(2 + rnd.IntN(4)) {
				all.Go(func() {
					rnd := rand.New(rand.NewPCG(seed<<8+i, k+1))
					for ctx.Err() == nil {
						p.step(rnd)
					}
				})
			}
		}
		all.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(upTo(rnd, 20*time.Second))
				_, err := operator.Admin().ForceRelease(t.Context(), pick(rnd, resources), holdfast.HoldID{})
				is(t, err, nil)
			}
		})
		all.Wait()
		time.Sleep(10 * time.Second) // abandoned campaigns of Electors
		for _, p := range processes {
			p.calm.Store(true)
			p.mustGetAll(operator)
			p.now.Load().close()
		}
		time.Sleep(4 * time.Minute) // late requests, AtLeast and TTLs
		for s, err := range j.List(t.Context(), driver.Filter{}) {
			t.Errorf("in the end the store has %+v, error %v", s, err)
		}
		runs = j.count
	})
	return runs
}

func upTo(rnd *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(1 + rnd.Int64N(int64(d)))
}

func pick[T any](rnd *rand.Rand, of []T) T { return of[rnd.IntN(len(of))] }

// resources are used by all adapters. Only "elected" has an Elector, which keeps it.
var resources = []string{"a", "a", "b", "b", "elected"}

// judge is a store that judges its grants by the running functions.
type judge struct {
	*memlock.Store
	t *testing.T

	mu      sync.Mutex
	of      map[string]*record          // by resource
	evicted map[driver.HoldID]time.Time // holds that were released by force
	count   int                         // number of runs
}

// record is what the judge knows about a resource.
type record struct {
	runs    []*run // runs that have not returned
	token   uint64 // of the last grant
	granted time.Time
	forced  time.Time // when it was last released by force
	blocked time.Time // until when AtLeast blocks it
}

// run is a call of a function under a lock.
type run struct {
	s     *session
	hold  *holdfast.Hold
	ctx   context.Context
	began time.Time
}

func (r *run) String() string {
	return fmt.Sprintf("the run of %s with token %d", r.s.kind.name, r.hold.Token())
}

// believes reports whether the run may believe that it has the lock.
func (r *run) believes() bool { return r.ctx.Err() == nil || r.hold.Context().Err() == nil }

// closing reports whether Close keeps the lock for the run.
func (r *run) closing() bool {
	closed := r.s.closed.Load()
	return r.s.kind.do && r.s.sound && closed != nil && time.Since(*closed) < 3*time.Second &&
		errors.Is(context.Cause(r.hold.Context()), holdfast.ErrClosed)
}

func (j *judge) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	g, err := j.Store.Acquire(ctx, q)
	if of := j.of[q.Resource]; err == nil && g.Token > of.token {
		if early := time.Until(of.blocked); early > almost {
			j.t.Errorf("%q: granted %v before the end of AtLeast", q.Resource, early)
		}
		of.token, of.granted = g.Token, time.Now()
		j.check(q.Resource)
	}
	return g, err
}

func (j *judge) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, q := range qs {
		if of := j.of[q.Resource]; q.Reason != "" { // by force
			j.evicted[q.HoldID], of.forced, of.blocked = time.Now(), time.Now(), time.Time{}
		}
	}
	return j.Store.Release(ctx, qs)
}

// check fails if the lock of a running function was granted again. j.mu is held.
func (j *judge) check(resource string) {
	for _, r := range j.of[resource].runs {
		if r.hold.Token() >= j.of[resource].token {
			continue
		}
		notices := r.s.lock.TTL
		if r.s.sound {
			notices /= 3
		}
		at, evicted := j.evicted[r.hold.ID()]
		if r.believes() && (!evicted || time.Since(at) > notices) || r.closing() && !evicted {
			j.t.Errorf("%q: granted with token %d beside %v", resource, j.of[resource].token, r)
		}
	}
}

func (j *judge) begin(r *run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	of := j.of[r.s.resource]
	for _, other := range of.runs {
		tasks := r.s.kind.name == "Elector" && other.s.kind.name == "Elector" && r.hold == other.hold
		if other.s.client == r.s.client && !tasks {
			j.t.Errorf("%q: %v began beside %v in one process", r.s.resource, r, other)
		}
	}
	of.runs = append(of.runs, r)
	j.check(r.s.resource)
}

func (j *judge) end(r *run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.check(r.s.resource)
	of := j.of[r.s.resource]
	of.runs = slices.DeleteFunc(of.runs, func(other *run) bool { return other == r })
}

// block notes that AtLeast keeps the resource locked, from the start of an ended run.
func (j *judge) block(r *run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	of, until := j.of[r.s.resource], r.began.Add(r.s.atLeast)
	switch {
	case !of.forced.Before(r.s.began):
	case of.token > r.hold.Token() && until.Sub(of.granted) > almost:
		j.t.Errorf("%q: granted %v before the end of AtLeast of %v", r.s.resource, until.Sub(of.granted), r)
	default:
		of.blocked = until
	}
}

// process has one Client after another on a network.
type process struct {
	j     *judge
	ctx   context.Context
	store *drivertest.FaultStore
	sound bool        // its requests have no faults
	calm  atomic.Bool // its requests have no more faults
	now   atomic.Pointer[instance]
}

// network loses, delays, repeats and reorders requests and replies, and fails now and then.
func (p *process) network(rnd *rand.Rand) func(drivertest.Call) drivertest.Fault {
	var down time.Time
	never := make(chan struct{})
	return func(c drivertest.Call) drivertest.Fault {
		delay := upTo(rnd, pick(rnd, []time.Duration{time.Second, 3 * time.Second, 40 * time.Second}))
		n := rnd.IntN(200)
		switch {
		case p.sound || p.calm.Load():
			return drivertest.Fault{}
		case time.Now().Before(down):
		case n < 2:
			down = time.Now().Add(upTo(rnd, 20*time.Second))
		case n < 40:
		case c.Op == drivertest.Watch && n < 100:
			return drivertest.Fault{Cut: after(delay), HoldSignals: after(delay / 2)}
		default:
			return drivertest.Fault{}
		}
		return pick(rnd, []drivertest.Fault{
			{LoseRequest: true},
			{LoseReply: true},
			{HoldRequest: after(delay)},
			{HoldRequest: after(delay), LoseReply: true}, // its repeat comes first
			{HoldReply: after(delay)},
			{HoldRequest: never},
			{Behind: drivertest.Release, LoseReply: rnd.IntN(2) == 0},
		})
	}
}

// after returns a channel that is closed after d.
func after(d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	time.AfterFunc(d, func() { close(ch) })
	return ch
}

// mutex is a Mutex, and the session that has locked it.
type mutex struct {
	*adapt.Mutex
	session atomic.Pointer[session]
}

// instance is a Client of a process, and the adapters that use it.
type instance struct {
	*process
	client  *holdfast.Client
	closed  atomic.Pointer[time.Time]
	lock    *holdfast.LockOptions
	atLeast time.Duration
	names   *adapt.Names
	locker  *adapt.Locker[adapt.Unlocker]
	elector *adapt.Elector
	mutexes map[string]*mutex
}

func (p *process) start(rnd *rand.Rand) {
	c := holdfast.New(p.store, &holdfast.Options{NoSweep: true, LeaveHolds: rnd.IntN(5) == 0})
	o := &holdfast.LockOptions{
		TTL:           holdfast.MinTTL + upTo(rnd, pick(rnd, []time.Duration{5 * time.Second, 5 * time.Second, time.Minute})),
		TakeoverDelay: time.Duration(rnd.IntN(2)) * upTo(rnd, time.Second),
		Fair:          rnd.IntN(3) == 0,
		LockID:        pick(rnd, []string{"", "", "", "pod-0"}),
	}
	in := &instance{
		process: p, client: c, lock: o, atLeast: time.Duration(rnd.IntN(2)) * upTo(rnd, time.Minute),
		names: adapt.NewNames(c, &adapt.NamesOptions{Lock: o}), elector: adapt.NewElector(c, "elected", o),
		mutexes: make(map[string]*mutex),
	}
	in.locker = adapt.NewLocker[adapt.Unlocker](c, &adapt.LockerOptions{AtLeast: in.atLeast, Lock: o})
	for _, resource := range resources {
		m, mo := new(mutex), &adapt.MutexOptions{Lock: o}
		if rnd.IntN(2) == 0 {
			mo.OnLoss = func(err error) { m.session.Load().report(err) }
		}
		m.Mutex = adapt.NewMutex(p.ctx, c, resource, mo)
		in.mutexes[resource] = m
	}
	p.now.Store(in)
}

// close closes the Client, unless another goroutine does.
func (in *instance) close() bool {
	began := time.Now()
	if !in.closed.CompareAndSwap(nil, &began) {
		return false
	}
	_ = in.client.Close()
	if took := time.Since(began); took > 5*time.Second {
		in.j.t.Errorf("Close took %v", took)
	}
	return true
}

// mustGetAll fails unless the process, whose network works now, gets each lock: nothing
// earlier may block it.
func (p *process) mustGetAll(operator *holdfast.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), 10*time.Minute)
	defer cancel()
	in, t := p.now.Load(), p.j.t
	for _, resource := range []string{"a", "b"} {
		is(t, in.names.Lock(ctx, resource), nil)
		is(t, in.names.Unlock(ctx, resource), nil)
	}
	_, err := operator.Admin().ForceRelease(ctx, "elected", holdfast.HoldID{})
	is(t, err, nil)
	time.Sleep(30 * time.Second) // it has noticed by then
	for err := in.elector.IsLeader(ctx); err != nil; err = in.elector.IsLeader(ctx) {
		if ctx.Err() != nil {
			t.Errorf("it is not elected: %v", err)
			return
		}
		time.Sleep(time.Second)
	}
	is(t, in.elector.Task(func(ctx context.Context) error { return ctx.Err() })(ctx), nil)
}

// step is a pause and one use of an adapter, or a restart of the process.
func (p *process) step(rnd *rand.Rand) {
	time.Sleep(upTo(rnd, 2*time.Second))
	in := p.now.Load()
	if rnd.IntN(50) == 0 {
		if in.close() {
			p.start(rnd)
		}
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, upTo(rnd, 30*time.Second))
	defer cancel()
	s := &session{instance: in, rnd: rnd, ctx: ctx, kind: pick(rnd, kinds), resource: pick(rnd, resources), began: time.Now()}
	if s.kind.name == "Elector" {
		s.resource = "elected"
	}
	defer func() {
		thrown := recover()
		if thrown != s.thrown {
			p.j.t.Errorf("%s panicked with %v, its function with %v", s.kind.name, thrown, s.thrown)
		}
		s.verdict()
	}()
	s.report(s.kind.use(s))
}

// session is one use of an adapter.
type session struct {
	*instance
	rnd      *rand.Rand
	ctx      context.Context
	kind     kind
	resource string
	began    time.Time
	returned time.Time

	extends bool      // AtLeast is to extend the lock
	run     *run      // the last one
	ended   time.Time // when it ended
	cause   error     // why its lock had ended before
	failed  error     // the error that it returned
	thrown  any       // the value that it panicked with

	mu   sync.Mutex
	errs []error // returned or reported by the adapter
}

func (s *session) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs = append(s.errs, err)
	}
}

// kind is an adapter, and how a session uses it.
type kind struct {
	name  string
	waits bool // for the lock, until its ctx ends
	do    bool // Close waits for its function
	use   func(s *session) error
}

var kinds = []kind{
	{"Job", false, true, func(s *session) error {
		s.extends = true
		o := &adapt.JobOptions{AtLeast: s.atLeast, Lock: s.lock, Report: s.report}
		adapt.Job(s.ctx, s.client, s.resource, o, func(ctx context.Context) {
			_ = s.work(ctx)
			s.failed = nil
		})()
		return nil
	}},
	{"Locker", false, false, func(s *session) error {
		lock, err := s.locker.Lock(s.ctx, s.resource)
		if err != nil {
			return err
		}
		s.extends = true
		defer func() {
			s.report(lock.Unlock(s.ctx))
			s.returned = time.Now()
			time.Sleep(upTo(s.rnd, 3*time.Second)) // another caller may have it by then
			is(s.j.t, lock.Unlock(s.ctx), adapt.ErrNotHeld)
		}()
		return s.locker.Task(s.resource, s.work)(s.ctx)
	}},
	{"Elector", false, false, func(s *session) error {
		if err := s.elector.IsLeader(s.ctx); err != nil {
			is(s.j.t, err, adapt.ErrNotLeader)
			return err
		}
		return s.elector.Task(s.work)(s.ctx)
	}},
	{"Lead", true, true, func(s *session) error {
		err := adapt.Lead(s.ctx, s.client, s.resource, &adapt.LeadOptions{Lock: s.lock, Report: s.report}, s.work)
		if s.run == nil {
			s.mustBeOver("Lead", err)
		}
		return err
	}},
	{"Migrate", true, true, func(s *session) error {
		return adapt.NewMigrations(s.client, s.resource, s.lock).Migrate(s.ctx, s.work)
	}},
	{"Names.TryLock", false, false, func(s *session) error {
		ok, err := s.names.TryLock(s.ctx, s.resource)
		if !ok {
			return cmp.Or(err, holdfast.ErrHeld)
		}
		return s.underName()
	}},
	{"Names.Lock", true, false, func(s *session) error {
		if err := s.names.Lock(s.ctx, s.resource); err != nil {
			return err
		}
		return s.underName()
	}},
	{"Mutex", true, false, func(s *session) error {
		s.ctx = s.process.ctx // the ctx of the Mutex
		m := s.mutexes[s.resource]
		if err := recovered(m.Lock); err != nil {
			s.mustBeOver("Lock", err)
			return err
		}
		m.session.Store(s)
		ctx, cancel := m.Hold().Bind(s.ctx)
		defer cancel()
		defer func() {
			time.Sleep(time.Millisecond) // OnLoss has a goroutine of its own
			s.report(recovered(m.Unlock))
			if len(slices.Compact(slices.Clone(s.errs))) < len(s.errs) {
				s.j.t.Errorf("a Mutex reports twice: %q", s.errs)
			}
		}()
		return s.work(ctx)
	}},
}

// mustBeOver fails if a wait without an end was given up.
func (s *session) mustBeOver(what string, err error) {
	if s.ctx.Err() == nil && s.closed.Load() == nil {
		s.j.t.Errorf("%s gave up: %v", what, err)
	}
}

// recovered returns the error that the function panics with.
func recovered(f func()) (err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = thrown.(error)
		}
	}()
	f()
	return nil
}

// underName is the work of a caller that has the name, while another goroutine renews it.
func (s *session) underName() error {
	var beside sync.WaitGroup
	stop := make(chan struct{})
	renew := func() {
		err := s.names.RenewLockLease(s.ctx, s.resource, time.Hour)
		if !errors.Is(err, adapt.ErrNotHeld) && !errors.Is(err, holdfast.ErrReleased) { // otherwise it was unlocked, or the other has it
			s.report(err)
		}
	}
	defer func() {
		close(stop)
		s.report(s.names.Unlock(s.ctx, s.resource))
		s.returned = time.Now()
		beside.Wait()
	}()
	pause := upTo(s.rnd, time.Second)
	beside.Go(func() {
		for {
			select {
			case <-time.After(pause):
			case <-stop:
				return
			}
			renew()
		}
	})
	for {
		ctx, cancel := s.names.Bind(s.ctx, s.resource)
		err := s.work(ctx)
		cancel()
		if err != nil || s.rnd.IntN(2) == 0 {
			return err
		}
		renew()
	}
}

var errOwn = errors.New("the function failed")

// work is the function that runs under the lock.
func (s *session) work(ctx context.Context) error {
	r := &run{s: s, hold: holdfast.HoldOf(ctx), ctx: ctx, began: time.Now()}
	s.run, s.failed = r, nil
	s.j.begin(r)
	defer func() {
		s.ended, s.cause = time.Now(), context.Cause(r.hold.Context())
		s.j.end(r)
	}()
	if s.kind.name == "Lead" && s.rnd.IntN(4) == 0 { // it steps down
		s.report(r.hold.Unlock(ctx))
	}
	switch s.rnd.IntN(10) {
	case 0:
		return nil
	case 1:
		<-ctx.Done()
		s.failed = ctx.Err()
		return s.failed
	case 2: // it ignores its ctx
		time.Sleep(upTo(s.rnd, 20*time.Second))
		return nil
	case 3:
		s.failed = errOwn
		return errOwn
	case 4:
		s.thrown = "oops"
		panic(s.thrown)
	case 5:
		s.nested(ctx)
	}
	select {
	case <-ctx.Done():
	case <-time.After(upTo(s.rnd, 5*time.Second)):
	}
	return nil
}

// nested asks for the lock again with the ctx of the lock, which never waits for itself.
func (s *session) nested(ctx context.Context) {
	began := time.Now()
	err := s.names.Lock(ctx, s.resource)
	if ctx.Err() == nil {
		is(s.j.t, err, holdfast.ErrHeld)
	}
	if err == nil || time.Since(began) > 0 {
		s.j.t.Errorf("Lock under its own lock: error %v after %v", err, time.Since(began))
	}
}

// verdict judges the result of the session.
func (s *session) verdict() {
	if s.returned.IsZero() {
		s.returned = time.Now()
	}
	t := s.j.t
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s of %q, from %v to %v, its run to %v, lost by %v, errors %q: %s", s.kind.name, s.resource,
			s.began, s.returned, s.ended, s.cause, s.errs, fmt.Sprintf(format, args...))
	}
	result := errors.Join(s.errs...)
	for _, reason := range []error{holdfast.ErrLost, errOwn} {
		if s.thrown == nil && (errors.Is(s.cause, reason) || errors.Is(s.failed, reason)) && !errors.Is(result, reason) {
			fail("nobody is told: %v", reason)
		}
	}
	if result == nil && (s.run == nil || s.thrown == nil && errors.Is(s.cause, holdfast.ErrClosed)) {
		fail("no error")
	}
	for _, err := range s.errs {
		if !s.expected(err) {
			fail("unexpected: %v", err)
		}
	}
	if s.extends && result == nil && s.thrown == nil {
		s.j.block(s.run)
	}

	// The release takes 5 s. Waits end with their ctx or their Client; AtLeast then takes 5 s
	// and a second release.
	over, _ := s.ctx.Deadline()
	if closed := s.closed.Load(); closed != nil && closed.Before(over) {
		over = *closed
	}
	last, limit := []time.Time{s.began, s.ended}, 5*time.Second+almost
	switch {
	case s.kind.waits:
		last = append(last, over)
	case s.extends && s.atLeast > 0:
		last, limit = append(last, over), 15*time.Second
	}
	end := slices.MaxFunc(last, time.Time.Compare).Add(limit)
	if s.returned.After(end) {
		fail("it took %v too long", s.returned.Sub(end))
	}
}

// expected reports whether a session may have that error.
func (s *session) expected(err error) bool {
	is := func(of ...error) bool {
		return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
	}
	s.j.mu.Lock()
	forced := s.j.of[s.resource].forced.After(s.began.Add(-s.lock.TTL))
	s.j.mu.Unlock()
	return is(holdfast.ErrHeld, s.failed, s.ctx.Err()) ||
		s.closed.Load() != nil && is(holdfast.ErrClosed, holdfast.ErrReleased, adapt.ErrNotLeader) ||
		forced && is(holdfast.ErrForced, adapt.ErrNotLeader) ||
		!s.sound && !is(holdfast.ErrInvalid, holdfast.ErrUnsupported, holdfast.ErrDamaged, holdfast.ErrUnusable, adapt.ErrNotHeld)
}
