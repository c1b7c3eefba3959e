package holdfast_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// inBubble runs a subtest in a synctest bubble.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// newClient makes a Client that is closed at the end of the test. Two Clients of one store
// represent two processes.
func newClient(t *testing.T, store driver.Store, opts *holdfast.Options) *holdfast.Client {
	t.Helper()
	c := unswept(store, opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// unswept is holdfast.New for a Client that does not sweep: tests count its calls.
func unswept(store driver.Store, opts *holdfast.Options) *holdfast.Client {
	var o holdfast.Options
	if opts != nil {
		o = *opts
	}
	o.NoSweep = true
	return holdfast.New(store, &o)
}

// faulty puts a FaultStore in front of the store. The first rule that returns a Fault for a
// call applies.
func faulty(t *testing.T, store driver.Store, rules ...rule) *drivertest.FaultStore {
	t.Helper()
	f := drivertest.NewFaultStore(store, func(c drivertest.Call) drivertest.Fault {
		for _, disturb := range rules {
			if fault := disturb(c); fault != (drivertest.Fault{}) {
				return fault
			}
		}
		return drivertest.Fault{}
	})
	t.Cleanup(func() { _ = f.Close() })
	return f
}

type rule func(drivertest.Call) drivertest.Fault

// on disturbs the calls of op with the given numbers, or all calls.
func on(op drivertest.Op, fault drivertest.Fault, numbers ...int) rule {
	return each(op, func() drivertest.Fault { return fault }, numbers...)
}

// each is like on, with a new fault for each call.
func each(op drivertest.Op, fault func() drivertest.Fault, numbers ...int) rule {
	return func(c drivertest.Call) drivertest.Fault {
		if c.Op == op && (len(numbers) == 0 || slices.Contains(numbers, c.N)) {
			return fault()
		}
		return drivertest.Fault{}
	}
}

// delayed delays the replies to the calls of op with the given numbers, or to all calls.
func delayed(op drivertest.Op, d time.Duration, numbers ...int) rule {
	return each(op, func() drivertest.Fault { return drivertest.Fault{HoldReply: after(d)} }, numbers...)
}

// while applies the rule as long as the flag is set.
func while(flag *atomic.Bool, r rule) rule {
	return func(c drivertest.Call) drivertest.Fault {
		if flag.Load() {
			return r(c)
		}
		return drivertest.Fault{}
	}
}

// outage lets no request through while down is set.
func outage(down *atomic.Bool) rule {
	return while(down, func(drivertest.Call) drivertest.Fault { return drivertest.Fault{LoseRequest: true} })
}

// after returns a channel that is closed after d.
func after(d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	time.AfterFunc(d, func() { close(ch) })
	return ch
}

// lock acquires a lock that must be granted.
func lock(t *testing.T, c *holdfast.Client, resource string, o *holdfast.LockOptions) *holdfast.Hold {
	t.Helper()
	h, err := c.Lock(t.Context(), resource, o)
	if err != nil {
		t.Fatalf("Lock(%q): %v", resource, err)
	}
	return h
}

// tryLock acquires a lock that must be free.
func tryLock(t *testing.T, c *holdfast.Client, resource string, o *holdfast.LockOptions) *holdfast.Hold {
	t.Helper()
	h, err := c.TryLock(t.Context(), resource, o)
	if err != nil {
		t.Fatalf("TryLock(%q): %v", resource, err)
	}
	return h
}

func unlock(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	if err := h.Unlock(t.Context()); err != nil {
		t.Fatalf("Unlock of %q: %v", h.Resource(), err)
	}
}

// heldError fails unless err is a *HeldError.
func heldError(t *testing.T, err error) *holdfast.HeldError {
	t.Helper()
	var held *holdfast.HeldError
	if !errors.As(err, &held) || !errors.Is(err, holdfast.ErrHeld) {
		t.Fatalf("got error %v, want ErrHeld", err)
	}
	return held
}

func mustBeHeld(t *testing.T, err error) {
	t.Helper()
	_ = heldError(t, err)
}

// result is the result of a Lock, and when it came.
type result struct {
	hold *holdfast.Hold
	err  error
	at   time.Time
}

// locking calls Lock in a new goroutine.
func locking(ctx context.Context, c *holdfast.Client, resource string, o *holdfast.LockOptions) <-chan result {
	return running(func() (*holdfast.Hold, error) { return c.Lock(ctx, resource, o) })
}

func running(lock func() (*holdfast.Hold, error)) <-chan result {
	ch := make(chan result, 1)
	go func() {
		h, err := lock()
		ch <- result{hold: h, err: err, at: time.Now()}
	}()
	return ch
}

// handOver releases h and returns the next hold, and how long the resource was free before.
func handOver(t *testing.T, h *holdfast.Hold, next <-chan result) (*holdfast.Hold, time.Duration) {
	t.Helper()
	freed := time.Now()
	unlock(t, h)
	r := <-next
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.hold, r.at.Sub(freed)
}

// first returns the first element of a list, which must not be empty.
func first[T any](t *testing.T, list iter.Seq2[T, error]) T {
	t.Helper()
	for one, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	t.Fatal("the list is empty")
	panic("unreachable")
}

// holdsIn lists the holds that block the resource in the store.
func holdsIn(t *testing.T, store driver.Store, resource string) []driver.Status {
	t.Helper()
	var ss []driver.Status
	for s, err := range store.List(context.Background(), driver.Filter{Resource: resource}) {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		ss = append(ss, s)
	}
	return ss
}

// mustBeFree fails if a hold blocks the resource in the store.
func mustBeFree(t *testing.T, store driver.Store, resource string) {
	t.Helper()
	if ss := holdsIn(t, store, resource); len(ss) != 0 {
		t.Fatalf("%q is still held: %+v", resource, ss)
	}
}

// mustBeHeldBy fails unless the hold is the only one of its resource.
func mustBeHeldBy(t *testing.T, store driver.Store, h *holdfast.Hold) {
	t.Helper()
	ss := holdsIn(t, store, h.Resource())
	if len(ss) != 1 || ss[0].HoldID != h.ID() || ss[0].Token != h.Token() {
		t.Fatalf("the store has %+v, want just hold %v with token %d", ss, h.ID(), h.Token())
	}
}

// alive fails if the hold's context has ended.
func alive(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	if h.Context().Err() != nil {
		t.Fatalf("the hold of %q has ended: %v", h.Resource(), context.Cause(h.Context()))
	}
}

// mustEnd waits for the end of the hold's context, fails unless cause is the reason, and
// returns how long it took.
func mustEnd(t *testing.T, h *holdfast.Hold, within time.Duration, cause error) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-h.Context().Done():
	case <-time.After(within):
		t.Fatalf("the hold of %q did not end within %v", h.Resource(), within)
	}
	if got := context.Cause(h.Context()); !errors.Is(got, cause) {
		t.Fatalf("the hold of %q ended with %v, want %v", h.Resource(), got, cause)
	}
	return time.Since(began)
}

// sleeper is the clock of a machine, which counts the time that the machine sleeps. Timers do
// not.
type sleeper struct {
	start time.Time
	slept atomic.Int64
}

func newSleeper() *sleeper { return &sleeper{start: time.Now()} }

func (s *sleeper) sleep(d time.Duration) { s.slept.Add(int64(d)) }

func (s *sleeper) clock() time.Duration {
	return time.Since(s.start) + time.Duration(s.slept.Load())
}

// now is the machine's time of day.
func (s *sleeper) now() time.Time { return s.start.Add(s.clock()) }
