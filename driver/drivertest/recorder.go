package drivertest

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Recorder is a store in front of another store that records the requests and answers for
// Judge. All methods may be called concurrently. It does not support Watch.
type Recorder struct {
	driver.Store
	*record
}

// record is the history of one or several recorders.
type record struct {
	clock  func() time.Duration
	coarse time.Duration

	mu     sync.Mutex
	order  int
	events []Event
}

// Event is one request and its answer, as the caller saw it. A batch has one event for each
// request.
type Event struct {
	Op      Op // Acquire, Renew, Release or List
	Outcome Outcome
	// Err is the reason of an unknown outcome.
	Err error
	// Ref is the ref of the request. For a grant it has the token.
	Ref           driver.HoldRef
	Mode          driver.Mode
	Limit         int
	TTL           time.Duration
	TakeoverDelay time.Duration
	After         time.Duration
	// Left is the time left of a grant or a renewal.
	Left time.Duration
	// Place is the place of a waiting acquire, or the place that a release gives up; without
	// a hold ID the release is about no hold. Fair is that of the acquire.
	Place driver.PlaceID
	Fair  bool
	// BySelf and Position are from a refusal.
	BySelf   bool
	Position int
	// Behind says that the refusal has places ahead. They may be all that is in the way.
	Behind bool
	// Filter and Holds are from a list.
	Filter driver.Filter
	Holds  []driver.Status
	// The store decided between Called and Answered.
	Called, Answered Moment
}

// Leaves reports whether the event is about a place in the queue, and no hold.
func (e *Event) Leaves() bool {
	return e.Op == Release && !e.Place.IsZero() && e.Ref.HoldID.IsZero()
}

// Outcome is the outcome of a request.
type Outcome string

// The values of Outcome. Done is a grant, a renewal, a release or a complete list.
const (
	Done    Outcome = "done"
	Held    Outcome = "held"
	Lost    Outcome = "lost"
	Unknown Outcome = "unknown"
)

// Moment is a point of the history. Order rises by one with every call and every answer, even
// if the clock stands still.
type Moment struct {
	Order int
	Time  time.Duration
}

// NewRecorder returns a Recorder for the store. The clock must run as fast as the store's and
// never go back; it may begin anywhere. coarse is the resolution of the store's clock, or 0
// if clock is the store's own.
func NewRecorder(store driver.Store, clock func() time.Duration, coarse time.Duration) *Recorder {
	return &Recorder{Store: store, record: &record{clock: clock, coarse: coarse}}
}

// Beside returns a Recorder of another handle on the same data, which records into the same
// history.
func (r *Recorder) Beside(store driver.Store) *Recorder {
	return &Recorder{Store: store, record: r.record}
}

// Events returns the answered requests so far, in the order of the answers.
func (r *record) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.events...)
}

// called returns the moment before a call.
func (r *record) called() Moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.next()
	m.Time -= r.coarse
	return m
}

func (r *record) next() Moment {
	r.order++
	return Moment{Order: r.order, Time: r.clock()}
}

// settle returns the outcome of a request.
func (e *Event) settle(err error) {
	if e.Outcome = outcome(err); e.Outcome == Unknown {
		e.Err = err
	}
}

// answered records the events of one call.
func (r *record) answered(called Moment, events ...Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answered := r.next()
	answered.Time += r.coarse
	for _, e := range events {
		e.Called, e.Answered = called, answered
		r.events = append(r.events, e)
	}
}

func outcome(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, driver.ErrHeld):
		return Held
	case errors.Is(err, driver.ErrLost):
		return Lost
	}
	return Unknown
}

// Acquire implements driver.Store.
func (r *Recorder) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	called := r.called()
	g, err := r.Store.Acquire(ctx, q)
	e := Event{
		Op:   Acquire,
		Ref:  driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token},
		Mode: q.Mode, Limit: q.Limit, TTL: q.TTL, TakeoverDelay: q.TakeoverDelay, Left: g.Left,
		Place: q.Place, Fair: q.Fair,
	}
	e.settle(err)
	var held *driver.HeldError
	if errors.As(err, &held) {
		e.BySelf, e.Position, e.Behind = held.BySelf, held.Position, len(held.Ahead) > 0
	}
	r.answered(called, e)
	return g, err
}

// Renew implements driver.Store.
func (r *Recorder) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	called := r.called()
	results, err := r.Store.Renew(ctx, qs)
	events := make([]Event, len(qs))
	for i, q := range qs {
		events[i] = Event{Op: Renew, Outcome: Unknown, Err: err, Ref: q.HoldRef, TTL: q.TTL}
		if err == nil && i < len(results) {
			events[i].settle(results[i].Err)
			events[i].Left = results[i].Left
		}
	}
	r.answered(called, events...)
	return results, err
}

// Release implements driver.Store.
func (r *Recorder) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	called := r.called()
	results, err := r.Store.Release(ctx, qs)
	events := make([]Event, len(qs))
	for i, q := range qs {
		events[i] = Event{Op: Release, Outcome: Unknown, Err: err, Ref: q.HoldRef, After: q.After, Place: q.Place}
		if err == nil && i < len(results) {
			events[i].settle(results[i].Err)
		}
	}
	r.answered(called, events...)
	return results, err
}

// List implements driver.Store. A list that was not read to its end is recorded as unknown.
func (r *Recorder) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		called := r.called()
		e := Event{Op: List, Outcome: Unknown, Filter: f, Ref: driver.HoldRef{Resource: f.Resource, LockID: f.LockID}}
		defer func() { r.answered(called, e) }()
		for s, err := range r.Store.List(ctx, f) {
			if err == nil {
				e.Holds = append(e.Holds, s)
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
		e.Outcome = Done
	}
}
