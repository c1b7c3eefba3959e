package drivertest_test

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/driver/wake"
)

// rules are the rules by which a store decides. The rules of package model are correct; a
// mutant breaks one of them.
type rules struct {
	acquire  func(model.Record, model.Time, driver.AcquireRequest) (model.Record, driver.Grant, bool, error)
	renew    func(model.Record, model.Time, driver.RenewRequest) (model.Record, driver.RenewResult)
	release  func(model.Record, model.Time, driver.ReleaseRequest) (_ model.Record, found, wake bool)
	statuses func(model.Record, model.Time, driver.Filter) []driver.Status
	sweep    func(model.Record, model.Time, time.Duration) (model.Record, int, bool)
	traits   driver.Traits
	// wakes reports whether a change by this Op gives a signal.
	wakes func(op drivertest.Op, refused bool) bool
	// watches is the value of Traits.Notifies.
	watches bool
	// grantsAnyMode grants also modes that the traits exclude.
	grantsAnyMode bool
	// cutOff returns the answers while the data cannot be reached.
	cutOff func(*ruled) answers
	// unwritten returns the error of a call of this Op whose write failed with err, or nil.
	unwritten func(op drivertest.Op, err error) error
	// yieldsLocked keeps the store locked during the loop over a list.
	yieldsLocked bool
	// reconnects signals all watchers when the data can be reached again.
	reconnects bool
	// noticesLoss signals a crash to WatchLoss.
	noticesLoss bool
	// unwatches ends a watch with its context.
	unwatches bool
	// copies reports whether a call of this Op waits until the copies have what it wrote or,
	// if it changed nothing, found.
	copies func(op drivertest.Op, changed bool) bool
}

func sound() *rules {
	return &rules{
		acquire: model.Acquire, renew: model.Renew, release: model.Release, statuses: model.Statuses, sweep: model.Sweep,
		traits: driver.Traits{
			Name: "ruled", Reach: driver.Process, ServerClock: true, Notifies: true, Queue: true,
			Durable: true, Shared: true, Fencing: driver.FencingStrict,
		},
		wakes:      func(op drivertest.Op, _ bool) bool { return op == drivertest.Release || op == drivertest.Sweep },
		watches:    true,
		cutOff:     func(*ruled) answers { return unanswered{errCutOff} },
		unwritten:  func(_ drivertest.Op, err error) error { return err },
		reconnects: true, noticesLoss: true,
		unwatches: true,
		copies:    func(op drivertest.Op, changed bool) bool { return true },
	}
}

// ruled is a store with these rules. Its clock stands still, or it is the real one.
type ruled struct {
	rules  *rules
	real   bool
	hub    wake.Hub
	losses wake.Hub // of driver.LossWatcher
	*drivertest.Clock

	mu      sync.Mutex
	records map[string]model.Record
	down    answers                 // replace its own answers, or nil
	full    bool                    // nothing can be written
	late    []func()                // buffered requests, to be done later
	copied  map[string]model.Record // what is on disk, and on the copy
	flow    chan struct{}           // closed while writes reach the copy
}

func newRuled(r *rules) *ruled {
	return &ruled{
		rules: r, Clock: drivertest.NewClock(time.Microsecond), records: make(map[string]model.Record),
		copied: make(map[string]model.Record), flow: closed(),
	}
}

func closed() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}

// enter locks the store and returns the time, unless ctx has ended.
func (s *ruled) enter(ctx context.Context) (model.Time, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	if s.real {
		return model.TimeOf(time.Now()), nil
	}
	return model.TimeOf(s.Now()), nil
}

func (s *ruled) record(resource string) model.Record {
	r := s.records[resource]
	r.Resource = resource
	return r
}

func (s *ruled) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if q.Mode == driver.Shared && !s.rules.traits.Shared && !s.rules.grantsAnyMode {
		return driver.Grant{}, driver.ErrUnsupported
	}
	if down := s.isDown(); down != nil {
		return down.Acquire(ctx, q)
	}
	now, err := s.enter(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	r, g, changed, err := s.rules.acquire(s.record(q.Resource), now, q)
	if changed {
		if failed := s.change(drivertest.Acquire, r, err != nil); err == nil {
			err = failed
		}
	}
	if err != nil {
		s.mu.Unlock()
		return g, err
	}
	return g, s.leave(ctx, drivertest.Acquire, changed)
}

// change stores a record and signals as the rules say.
func (s *ruled) change(op drivertest.Op, r model.Record, refused bool) error {
	return s.store(op, r, s.rules.wakes(op, refused))
}

func (s *ruled) store(op drivertest.Op, r model.Record, wake bool) error {
	if s.full {
		return s.rules.unwritten(op, errFull)
	}
	s.records[r.Resource] = r
	select {
	case <-s.flow:
		if s.rules.copies(op, true) {
			s.copied[r.Resource] = r
		}
	default:
	}
	if wake && s.down == nil { // s.down means that the stream is down too
		s.hub.Signal(r.Resource)
	}
	return nil
}

func (s *ruled) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if down := s.isDown(); down != nil {
		return down.Renew(ctx, qs)
	}
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	results, moved := make([]driver.RenewResult, len(qs)), false
	for i, q := range qs {
		before := s.record(q.Resource)
		var r model.Record
		if r, results[i] = s.rules.renew(before, now, q); results[i].Err == nil {
			results[i].Err = s.change(drivertest.Renew, r, false)
			moved = moved || firstEnd(r) != firstEnd(before)
		}
	}
	return results, s.leave(ctx, drivertest.Renew, moved)
}

func (s *ruled) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if down := s.isDown(); down != nil {
		return down.Release(ctx, qs)
	}
	return s.release(ctx, qs)
}

func (s *ruled) release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	results := make([]driver.ReleaseResult, len(qs))
	for i, q := range qs {
		before := s.record(q.Resource)
		r, found, wake := s.rules.release(before, now, q)
		results[i].Found = found
		if r.Touched != before.Touched {
			results[i].Err = s.store(drivertest.Release, r, wake && s.rules.wakes(drivertest.Release, false))
		}
	}
	return results, nil
}

func (s *ruled) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		if down := s.isDown(); down != nil {
			down.List(ctx, f)(yield)
			return
		}
		now, err := s.enter(ctx)
		if err != nil {
			yield(driver.Status{}, err)
			return
		}
		var all []driver.Status
		for _, r := range s.records {
			if f.Resource == "" || f.Resource == r.Resource {
				all = append(all, s.rules.statuses(r, now, f)...)
			}
		}
		if s.rules.yieldsLocked {
			defer s.mu.Unlock()
		} else {
			s.mu.Unlock()
		}
		for _, status := range all {
			if !yield(status, nil) {
				return
			}
		}
	}
}

func (s *ruled) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return func(yield func(driver.Place, error) bool) {
		now, err := s.enter(ctx)
		if err != nil {
			yield(driver.Place{}, err)
			return
		}
		places := model.Places(s.record(f.Resource), now, f)
		s.mu.Unlock()
		for _, p := range places {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (s *ruled) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if down := s.isDown(); down != nil {
		return down.Sweep(ctx, q)
	}
	now, err := s.enter(ctx)
	if err != nil {
		return total, err
	}
	defer s.mu.Unlock()
	for name, r := range s.records {
		r, dropped, remove := s.rules.sweep(r, now, q.Idle)
		switch {
		case dropped == 0 && !remove:
			continue
		case s.full:
			if err := s.rules.unwritten(drivertest.Sweep, errFull); err != nil {
				return total, err
			}
			total.Holds += dropped
			continue
		}
		s.records[name] = r
		if dropped > 0 {
			if err := s.change(drivertest.Sweep, r, false); err != nil {
				return total, err
			}
		}
		total.Holds += dropped
		if remove {
			delete(s.records, name)
			delete(s.copied, name)
			total.Records++
		}
	}
	return total, nil
}

func (s *ruled) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if !s.rules.watches {
		return nil, driver.ErrUnsupported
	}
	if down := s.isDown(); down != nil {
		return down.Watch(ctx, resource)
	}
	until := ctx
	if !s.rules.unwatches {
		until = context.WithoutCancel(ctx)
	}
	return s.hub.Subscribe(until, resource), ctx.Err()
}

func (s *ruled) Traits() driver.Traits { return s.rules.traits }

func (s *ruled) Close() error {
	s.hub.Close()
	return nil
}
