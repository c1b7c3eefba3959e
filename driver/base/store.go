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
	_ driver.Initializer = (*Store)(nil)
)

// New makes a store of the backend. It notes who waits, so Traits.Waiters is true
// of it; Traits.Shared is the backend's to say.
func New(b Backend) *Store { return &Store{backend: b} }

// Acquire implements driver.Store.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if q.Mode == driver.Shared && !s.backend.Traits().Shared {
		return driver.Grant{}, fmt.Errorf("shared lock of %q: %w", q.Resource, driver.ErrUnsupported)
	}
	a := &acquire{q: q}
	err := s.update(ctx, q.Resource, false, a.decide)
	switch {
	case errors.Is(a.refused, driver.ErrHeld):
		// It was so when it was decided, whatever became of the note.
		return driver.Grant{}, a.refused
	case err != nil:
		return driver.Grant{}, err
	}
	return a.grant, a.refused
}

// acquire is a request and what was decided about it last.
type acquire struct {
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
	results := make([]driver.RenewResult, len(qs))
	err := s.each(ctx, len(qs), true,
		func(i int) string { return qs[i].Resource },
		func(d *model.Draft, i int) (wake bool) {
			results[i] = d.Renew(qs[i])
			return false
		},
		func(i int, err error) { results[i] = driver.RenewResult{Left: driver.Unknown, Err: err} })
	return results, err
}

// Release implements driver.Store.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	results := make([]driver.ReleaseResult, len(qs))
	err := s.each(ctx, len(qs), false,
		func(i int) string { return qs[i].Resource },
		func(d *model.Draft, i int) (wake bool) {
			results[i] = driver.ReleaseResult{Found: d.Release(qs[i])}
			return results[i].Found
		},
		func(i int, err error) { results[i] = driver.ReleaseResult{Err: err} })
	return results, err
}

// each applies n requests to their resources, those on one resource in order and
// in one change. fail is told the requests whose outcome is unknown.
func (s *Store) each(
	ctx context.Context, n int, urgent bool, resource func(int) string,
	apply func(d *model.Draft, i int) (wake bool), fail func(int, error),
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n == 1 { // as most are
		err := s.update(ctx, resource(0), urgent, func(e Entry) Change {
			d := model.Edit(e.Record, e.Now)
			wake := apply(&d, 0)
			return put(&d, wake)
		})
		if err != nil {
			fail(0, err)
		}
		return nil
	}
	groups := group(n, resource)
	us := make([]Update, len(groups))
	for j, g := range groups {
		us[j] = Update{Resource: resource(g[0]), Decide: func(e Entry) Change {
			d := model.Edit(e.Record, e.Now)
			wake := false
			for _, i := range g {
				wake = apply(&d, i) || wake
			}
			return put(&d, wake)
		}}
	}
	err := s.backend.Update(ctx, us, urgent)
	for j, g := range groups {
		if unknown := errors.Join(err, us[j].Err); unknown != nil {
			for _, i := range g {
				fail(i, unknown)
			}
		}
	}
	return nil
}

func put(d *model.Draft, wake bool) Change {
	r, changed := d.Record()
	if !changed {
		return Change{}
	}
	return Change{Action: Put, Record: r, Wake: wake}
}

// group collects the indexes of the requests by resource, in order.
func group(n int, resource func(int) string) [][]int {
	groups := make([][]int, 0, n)
	at := make(map[string]int, n)
	for i := range n {
		g, ok := at[resource(i)]
		if !ok {
			g = len(groups)
			at[resource(i)] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// update makes one update.
func (s *Store) update(ctx context.Context, resource string, urgent bool, decide func(Entry) Change) error {
	us := [1]Update{{Resource: resource, Decide: decide}}
	if err := s.backend.Update(ctx, us[:], urgent); err != nil {
		return err
	}
	return us[0].Err
}

// List implements driver.Store.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(driver.Status{}, err)
			return
		}
		for e, err := range s.backend.Scan(ctx, f.Resource) {
			if err != nil {
				yield(driver.Status{}, err)
				return
			}
			for _, status := range model.Statuses(e.Record, e.Now, f) {
				if !yield(status, nil) {
					return
				}
			}
		}
	}
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
func (s *Store) Traits() driver.Traits { return s.backend.Traits() }

// Close implements driver.Store.
func (s *Store) Close() error { return s.backend.Close() }
