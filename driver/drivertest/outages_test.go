package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/internal/selftest"
)

// answers are the answers of a store that works without its data.
type answers interface {
	driver.Store
	driver.Watcher
	driver.Initializer
}

var (
	errCutOff = errors.New("connection reset by peer")
	errFull   = errors.New("no space left on device")
)

// unanswered fails every call.
type unanswered struct{ err error }

func (u unanswered) Acquire(context.Context, driver.AcquireRequest) (driver.Grant, error) {
	return driver.Grant{}, u.err
}

func (u unanswered) Renew(context.Context, []driver.RenewRequest) ([]driver.RenewResult, error) {
	return nil, u.err
}

func (u unanswered) Release(context.Context, []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return nil, u.err
}

func (u unanswered) List(context.Context, driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) { yield(driver.Status{}, u.err) }
}

func (u unanswered) Sweep(context.Context, driver.SweepRequest) (driver.SweepResult, error) {
	return driver.SweepResult{}, u.err
}

func (u unanswered) Watch(context.Context, string) (<-chan struct{}, error) { return nil, u.err }
func (u unanswered) Init(context.Context) error                             { return u.err }
func (u unanswered) Traits() driver.Traits                                  { return driver.Traits{} }
func (u unanswered) Close() error                                           { return nil }

// agreeing treats every failure as success.
type agreeing struct{ unanswered }

func (agreeing) Acquire(_ context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	return driver.Grant{Token: 1, Left: q.TTL}, nil
}

func (agreeing) Renew(_ context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	return make([]driver.RenewResult, len(qs)), nil
}

func (agreeing) Release(_ context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return make([]driver.ReleaseResult, len(qs)), nil
}

// blind treats every failed read as an empty result; writes fail.
type blind struct {
	answers
	empty *ruled
}

func (b blind) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	return b.empty.Renew(ctx, qs)
}

func (b blind) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return b.empty.Release(ctx, qs)
}

func (b blind) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return b.empty.List(ctx, f)
}

// overtaken treats every failed write as one that another change overtook.
type overtaken struct{ unanswered }

func (overtaken) Acquire(_ context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	return driver.Grant{}, &driver.HeldError{Resource: q.Resource}
}

func (overtaken) Renew(_ context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	rs := make([]driver.RenewResult, len(qs))
	for i := range rs {
		rs[i].Err = driver.ErrLost
	}
	return rs, nil
}

// buffering sends requests later, when the connection is back.
type buffering struct {
	unanswered
	store *ruled
}

func (b buffering) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.late = append(b.store.late, func() { _, _ = b.store.Release(context.WithoutCancel(ctx), qs) })
	return nil, b.err
}

// silent ends a list without an error when its connection breaks.
type silent struct{ answers }

func (silent) List(context.Context, driver.Filter) iter.Seq2[driver.Status, error] {
	return func(func(driver.Status, error) bool) {}
}

// outageMutants are correct as long as nothing fails and no loop over a list is slow.
var outageMutants = map[string]mutant{
	"every failure is a success": {func(r *rules) {
		r.cutOff = func(*ruled) answers { return agreeing{unanswered{errCutOff}} }
	}, "S22a_unreachable"},
	"a read that fails finds nothing": {func(r *rules) {
		r.cutOff = func(*ruled) answers { return blind{unanswered{errCutOff}, newRuled(sound())} }
	}, "S22a_unreachable"},
	"a write that fails is one that came second": {func(r *rules) {
		r.cutOff = func(*ruled) answers { return overtaken{unanswered{errCutOff}} }
	}, "S22a_unreachable"},
	"every failure is ErrUnusable": {func(r *rules) {
		r.cutOff = func(*ruled) answers { return unanswered{fmt.Errorf("%w: %w", driver.ErrUnusable, errCutOff)} }
	}, "S22a_unreachable"},
	"a list that is cut off is at its end": {func(r *rules) {
		r.cutOff = func(*ruled) answers { return silent{unanswered{errCutOff}} }
	}, "S22a_unreachable"},
	"a request is sent when the connection is back": {func(r *rules) {
		r.cutOff = func(s *ruled) answers { return buffering{unanswered{errCutOff}, s} }
	}, "S22a_unreachable"},
	"an acquire that is not written is granted":                          {unwritten(drivertest.Acquire, nil), "S22b_writes_fail"},
	"an acquire that is not written is refused":                          {unwritten(drivertest.Acquire, &driver.HeldError{}), "S22b_writes_fail"},
	"a renewal that is not written succeeds":                             {unwritten(drivertest.Renew, nil), "S22b_writes_fail"},
	"a renewal that is not written is lost":                              {unwritten(drivertest.Renew, driver.ErrLost), "S22b_writes_fail"},
	"a release that is not written succeeds":                             {unwritten(drivertest.Release, nil), "S22b_writes_fail"},
	"a sweep that is not written has swept":                              {unwritten(drivertest.Sweep, nil), "S22b_writes_fail"},
	"a stream that was cut is not told of":                               {func(r *rules) { r.reconnects = false }, "S22a_wakes_after_outage"},
	"a list locks the store while it is read":                            {func(r *rules) { r.yieldsLocked = true }, "list_holds_up_nobody"},
	"a watch never stops":                                                {func(r *rules) { r.unwatches = false }, "watch_ends"},
	"a release is told before it is on disk":                             {loses(drivertest.Release), "S22_restarted"},
	"a renewal is told before it is on disk":                             {loses(drivertest.Renew), "S22_restarted"},
	"a crash is not told of":                                             {func(r *rules) { r.noticesLoss = false }, "S22_signals_loss"},
	"a grant is told before copies have it":                              {loses(drivertest.Acquire), "S33_copies_get_nothing"},
	"a repeat is told before copies have it":                             {unconfirmed(drivertest.Acquire), "S33_copies_get_nothing"},
	"a renewal that moves no end is confirmed before the copies have it": {unconfirmed(drivertest.Renew), "S33_copies_get_nothing"},
}

// unwritten turns a failed write of an Op into the given error.
func unwritten(mistaken drivertest.Op, outcome error) func(*rules) {
	return func(r *rules) {
		r.unwritten = func(op drivertest.Op, err error) error {
			if op == mistaken {
				return outcome
			}
			return err
		}
	}
}

// loses confirms the writes of an Op before they are safe from a crash.
func loses(lost drivertest.Op) func(*rules) {
	return func(r *rules) { r.copies = func(op drivertest.Op, _ bool) bool { return op != lost } }
}

// unconfirmed returns what an Op found although only the primary may have it.
func unconfirmed(unconfirmed drivertest.Op) func(*rules) {
	return func(r *rules) {
		r.copies = func(op drivertest.Op, changed bool) bool { return op != unconfirmed || changed }
	}
}

// isDown returns the answers while the store is cut off from its data, or nil.
func (s *ruled) isDown() answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// Break cuts the store off from its data.
func (s *ruled) Break(*testing.T) (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = s.rules.cutOff(s)
	return func() {
		s.mu.Lock()
		late := s.late
		s.down, s.late = nil, nil
		s.mu.Unlock()
		for _, do := range late {
			do()
		}
		if s.rules.reconnects {
			s.hub.SignalAll()
		}
	}
}

// BreakWrites fills the disk of the store.
func (s *ruled) BreakWrites(*testing.T) (restore func()) {
	set := func(full bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.full = full
	}
	set(true)
	return func() { set(false) }
}

// Init checks that the data can be reached.
func (s *ruled) Init(ctx context.Context) error {
	if down := s.isDown(); down != nil {
		return down.Init(ctx)
	}
	return ctx.Err()
}

// crash leaves only what is on the disk, or on the copy that takes over.
func (s *ruled) crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = maps.Clone(s.copied)
	if s.rules.noticesLoss {
		s.losses.SignalAll()
	}
}

func (s *ruled) WatchLoss(ctx context.Context) (<-chan struct{}, error) {
	return s.losses.Subscribe(ctx, ""), nil
}

// HoldCopies keeps writes from the copy.
func (s *ruled) HoldCopies(*testing.T) (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	flow := make(chan struct{})
	s.flow = flow
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.copied = maps.Clone(s.records)
		close(flow)
	}
}

// leave unlocks the store, and waits until the copy has what a call wrote or, if it changed
// nothing, found.
func (s *ruled) leave(ctx context.Context, op drivertest.Op, changed bool) error {
	flow := s.flow
	s.mu.Unlock()
	if !s.rules.copies(op, changed) {
		return nil
	}
	select {
	case <-flow:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handle is another handle on the data of a store.
type handle struct{ *ruled }

func (handle) Close() error { return nil }

// beside is a handle that is not cut off.
type beside struct{ handle }

func (b beside) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	return b.release(ctx, qs)
}

func TestOutageMutants(t *testing.T) {
	for name, m := range outageMutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selftest.Catches(t, "TestSuite", name, m.caught)
		})
	}
}

// An attempt timed out because no copy had it, and is repeated. The primary fails before the
// copies get it. If the store has granted the repeat, two clients hold the lock.
func TestRepeatBeforeFailOver(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(*rules)
		twice  bool
	}{
		"confirmed":     {func(*rules) {}, false},
		"not confirmed": {unconfirmed(drivertest.Acquire), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := sound()
				c.breaks(r)
				s := newRuled(r)
				s.HoldCopies(t)
				ask := func(q driver.AcquireRequest) error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, err := s.Acquire(ctx, q)
					return err
				}
				first := request("r", "a")
				if err := ask(first); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("the first attempt ended with %v", err)
				}
				repeated := ask(first)
				s.crash()
				second := ask(request("r", "b"))
				if second == nil || errors.Is(second, driver.ErrHeld) {
					t.Fatalf("the copies get nothing, yet another acquirer was answered: %v", second)
				}
				if twice := repeated == nil && inStore(t, s, "r"); twice != c.twice {
					t.Errorf("both have the lock: %v (the repeat: %v), want %v", twice, repeated, c.twice)
				}
			})
		})
	}
}
