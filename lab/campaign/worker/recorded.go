package worker

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/campaign/history"
)

// recorded is a store that records requests and answers.
type recorded struct {
	driver.Store
	journal *history.Journal
}

// watched is a recorded store that supports Watch.
type watched struct {
	*recorded
	driver.Watcher
}

// WatchLoss implements driver.LossWatcher.
func (r *recorded) WatchLoss(ctx context.Context) (<-chan struct{}, error) {
	if w, ok := r.Store.(driver.LossWatcher); ok {
		return w.WatchLoss(ctx)
	}
	return nil, driver.ErrUnsupported
}

// record returns the store with a journal. The store is already initialized.
func record(s driver.Store, j *history.Journal) driver.Store {
	r := &recorded{s, j}
	if w, ok := s.(driver.Watcher); ok {
		return watched{r, w}
	}
	return r
}

func outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Done
	case errors.Is(err, driver.ErrHeld):
		return history.Held
	case errors.Is(err, driver.ErrLost):
		return history.Lost
	}
	return history.Unknown
}

// answered returns the event with its outcome.
func answered(e history.Event, err error) history.Event {
	e.Outcome = outcome(err)
	if err != nil {
		e.Why = err.Error()
	}
	return e
}

func about(kind history.Kind, ref driver.HoldRef) history.Event {
	return history.Event{Kind: kind, Resource: ref.Resource, LockID: ref.LockID, HoldID: ref.HoldID.String(), Token: ref.Token}
}

func (r *recorded) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	e := about(history.Acquire, driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID})
	e.Shared, e.Limit, e.TTL, e.Delay = q.Mode == driver.Shared, q.Limit, q.TTL, q.TakeoverDelay
	e.Place, e.Fair = q.Place.String(), q.Fair
	answer := r.journal.Call(e)
	g, err := r.Store.Acquire(ctx, q)
	e.Token = g.Token
	if held := (*driver.HeldError)(nil); errors.As(err, &held) {
		e.BySelf, e.Position, e.Behind = held.BySelf, held.Position, len(held.Ahead) > 0
	}
	answer(answered(e, err))
	return g, err
}

func (r *recorded) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	events := make([]history.Event, len(qs))
	for i, q := range qs {
		events[i] = about(history.Renew, q.HoldRef)
		events[i].TTL = q.TTL
	}
	answer := r.calls(events)
	rs, err := r.Store.Renew(ctx, qs)
	answer(err, len(rs), func(i int) error { return rs[i].Err })
	return rs, err
}

func (r *recorded) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	events := make([]history.Event, len(qs))
	for i, q := range qs {
		events[i] = about(history.Release, q.HoldRef)
		events[i].Place = q.Place.String()
	}
	answer := r.calls(events)
	rs, err := r.Store.Release(ctx, qs)
	answer(err, len(rs), func(i int) error { return rs[i].Err })
	return rs, err
}

// errMissing is the error of a request without a result of its own.
var errMissing = errors.New("no result")

// calls records the requests of a batch. The returned function records their answers: the error
// of the whole batch, or that many results.
func (r *recorded) calls(events []history.Event) (answer func(all error, results int, each func(i int) error)) {
	answers := make([]func(history.Event), len(events))
	for i, e := range events {
		answers[i] = r.journal.Call(e)
	}
	return func(all error, results int, each func(i int) error) {
		for i, e := range events {
			err := all
			switch {
			case err != nil:
			case i < results:
				err = each(i)
			default:
				err = errMissing
			}
			answers[i](answered(e, err))
		}
	}
}
