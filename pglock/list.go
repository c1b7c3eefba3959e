package pglock

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// page is how many rows a list or a sweep reads in one round trip.
const page = 500

// listed is a row of function list.
type listed struct {
	Resource string
	Clock    int64
	Holds    string
	Places   string
}

func (l *listed) read(c *columns) {
	l.Resource, l.Clock, l.Holds, l.Places = c.text(), c.bigint(), c.text(), c.text()
}

// List implements driver.Store. It reads pages by resource: each page is a
// snapshot, and all of them are not. A damaged record ends it.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return list(ctx, s, f, func(r listed) ([]driver.Status, error) {
		record, err := record(r.Resource, r.Holds)
		return model.Statuses(record, model.Time(r.Clock), f), err
	})
}

// Waiters implements driver.Queue, as List does.
func (s *Store) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return list(ctx, s, f, func(r listed) ([]driver.Place, error) {
		places, err := model.DecodePlaces([]byte(r.Places))
		if err != nil {
			return nil, fmt.Errorf("resource %q: %w", r.Resource, err)
		}
		return model.Places(model.Record{Resource: r.Resource, Places: places}, model.Time(r.Clock), f), nil
	})
}

// list yields what rows have. If it were inlined, List and Waiters would have a second copy
// of the function that it returns.
//
//go:noinline
func list[T any](ctx context.Context, s *Store, f driver.Filter, of func(listed) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		after := ""
		for {
			err := s.ready(ctx)
			var rows []listed // all, before any is yielded: the loop's body may use the pool
			if err == nil {
				rows, err = ask[listed](ctx, s, s.pool.acquire, s.do.list, f.Resource, f.LockID, after, page)
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, r := range rows {
				items, err := of(r)
				if err != nil {
					yield(none, err)
					return
				}
				for _, item := range items {
					if !yield(item, nil) {
						return
					}
				}
			}
			if len(rows) < page {
				return
			}
			after = rows[len(rows)-1].Resource
		}
	}
}

// swept is the row of function sweep.
type swept struct {
	Dropped, Deleted int
	More             bool
}

func (s *swept) read(c *columns) { s.Dropped, s.Deleted, s.More = c.int(), c.int(), c.bool() }

// Sweep implements driver.Store: one round trip for each 500 records that it changes,
// if only to note when to look at one again. The server decides, on its clock, row by
// row; it leaves rows that somebody has locked to the next sweep, and deletes none
// that somebody waits for.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if err := s.ready(ctx); err != nil {
		return total, err
	}
	for changed := 0; ; changed += page {
		most := page
		if q.Most > 0 {
			most = min(page, q.Most-changed)
		}
		answer, err := ask[swept](ctx, s, s.fromEither, s.do.sweep, q.Idle.Microseconds(), most)
		if err != nil {
			return total, err
		}
		for _, r := range answer { // one
			total.Holds += r.Dropped
			total.Records += r.Deleted
			total.More = r.More
		}
		if !total.More || q.Most > 0 && changed+most >= q.Most {
			return total, nil
		}
	}
}
