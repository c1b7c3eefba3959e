package base

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Store is a driver.Store on a Backend.
type Store struct {
	backend Backend
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Watcher     = (*Store)(nil)
	_ driver.Queue       = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// New returns a Store on the backend. It keeps a queue, so its Traits.Queue is true.
// Traits.Shared is that of the backend.
func New(b Backend) *Store { return &Store{backend: b} }

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if q.Mode == driver.Shared && !s.backend.Traits().Shared {
		return driver.Grant{}, fmt.Errorf("shared lock of %q: %w", q.Resource, driver.ErrUnsupported)
	}
	a := &acquire{q: q}
	a.update[0] = Update{Resource: q.Resource, Decide: a.decide}
	err := s.one(ctx, a.update[:], false)
	switch {
	case errors.Is(a.refused, driver.ErrHeld):
		// The refusal is valid even if the place could not be written. It then counts only
		// the places of other waiters.
		var held *driver.HeldError
		if err != nil && errors.As(a.refused, &held) && held.Position != driver.NoPlace {
			held.Position = driver.NoPlace
			held.Waiters--
		}
		return driver.Grant{}, a.refused
	case err != nil:
		return driver.Grant{}, err
	}
	return a.grant, a.refused
}

// acquire is a request and the last decision about it. Like batch it is one allocation,
// because that is most of the work of a store in memory.
type acquire struct {
	update  [1]Update
	q       driver.AcquireRequest
	grant   driver.Grant
	refused error
}

func (a *acquire) decide(e Entry) Change {
	next, grant, changed, refused := model.Acquire(e.Record, e.Now, a.q)
	a.grant, a.refused = grant, refused
	switch {
	case changed:
		return Change{Action: Put, Record: next, Courtesy: refused != nil}
	case refused == nil:
		return Change{Action: Confirm, Record: model.Touch(e.Record, e.Now)}
	}
	return Change{}
}

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	b := &batch[driver.RenewRequest, driver.RenewResult]{
		qs:       qs,
		resource: func(q *driver.RenewRequest) string { return q.Resource },
		apply: func(d *model.Draft, q *driver.RenewRequest) (r driver.RenewResult, wake bool) {
			return d.Renew(*q), false
		},
		failed: func(err error) driver.RenewResult { return driver.RenewResult{Left: driver.Unknown, Err: err} },
	}
	return b.run(ctx, s, true)
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	b := &batch[driver.ReleaseRequest, driver.ReleaseResult]{
		qs:       qs,
		resource: func(q *driver.ReleaseRequest) string { return q.Resource },
		apply: func(d *model.Draft, q *driver.ReleaseRequest) (r driver.ReleaseResult, wake bool) {
			found, wake := d.Release(*q)
			return driver.ReleaseResult{Found: found}, wake
		},
		failed: func(err error) driver.ReleaseResult { return driver.ReleaseResult{Err: err} },
	}
	return b.run(ctx, s, false)
}

// batch applies requests to their resources. The requests for one resource are applied in
// order and in one change.
type batch[Q, R any] struct {
	qs       []Q
	results  []R
	resource func(*Q) string
	apply    func(*model.Draft, *Q) (_ R, wake bool)
	failed   func(error) R // returns the result of a request whose outcome is unknown

	draft  model.Draft // of the record that is being changed
	update [1]Update
	result [1]R
}

func (b *batch[Q, R]) run(ctx context.Context, s *Store, urgent bool) ([]R, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(b.qs) == 1 { // the usual case
		b.results = b.result[:]
		b.update[0] = Update{Resource: b.resource(&b.qs[0]), Decide: b.decideFirst}
		if err := s.one(ctx, b.update[:], urgent); err != nil {
			b.result[0] = b.failed(err)
		}
		return b.results, nil
	}
	b.results = make([]R, len(b.qs))
	us := make([]Update, 0, len(b.qs))
	groups := make([][]int, 0, len(b.qs)) // the indexes of the requests of each update
	at := make(map[string]int, len(b.qs))
	for i := range b.qs {
		resource := b.resource(&b.qs[i])
		j, ok := at[resource]
		if !ok {
			j = len(us)
			at[resource] = j
			groups = append(groups, nil)
			us = append(us, Update{Resource: resource, Decide: func(e Entry) Change { return b.decide(e, groups[j]...) }})
		}
		groups[j] = append(groups[j], i)
	}
	err := s.backend.Update(ctx, us, urgent)
	for j, g := range groups {
		if unknown := errors.Join(err, us[j].Err); unknown != nil {
			for _, i := range g {
				b.results[i] = b.failed(unknown)
			}
		}
	}
	return b.results, nil
}

func (b *batch[Q, R]) decideFirst(e Entry) Change { return b.decide(e, 0) }

// decide applies the requests with the given indexes to their record.
func (b *batch[Q, R]) decide(e Entry, of ...int) Change {
	b.draft = model.Edit(e.Record, e.Now)
	wake := false
	for _, i := range of {
		var w bool
		b.results[i], w = b.apply(&b.draft, &b.qs[i])
		wake = wake || w
	}
	r, changed := b.draft.Record()
	if !changed {
		return Change{}
	}
	return Change{Action: Put, Record: r, Wake: wake}
}

// one makes a single update.
func (s *Store) one(ctx context.Context, us []Update, urgent bool) error {
	if err := s.backend.Update(ctx, us, urgent); err != nil {
		return err
	}
	return us[0].Err
}

// List implements driver.Store.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return model.Each(ctx, s.backend.Scan(ctx, f.Resource), func(e Entry) []driver.Status {
		return model.Statuses(e.Record, e.Now, f)
	})
}

// Waiters implements driver.Queue.
func (s *Store) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return model.Each(ctx, s.backend.Scan(ctx, f.Resource), func(e Entry) []driver.Place {
		return model.Places(e.Record, e.Now, f)
	})
}

// Watch implements driver.Watcher.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if w, ok := s.backend.(driver.Watcher); ok {
		return w.Watch(ctx, resource)
	}
	return nil, driver.ErrUnsupported
}

// Init implements driver.Initializer.
func (s *Store) Init(ctx context.Context) error {
	if i, ok := s.backend.(driver.Initializer); ok {
		return i.Init(ctx)
	}
	return nil
}

// Traits implements driver.Store.
func (s *Store) Traits() driver.Traits {
	t := s.backend.Traits()
	t.Queue = true
	return t
}

// Close implements driver.Store.
func (s *Store) Close() error { return s.backend.Close() }

// Format implements fmt.Formatter. It writes only the kind of the store.
func (s *Store) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.backend.Traits().Name, " store") }
