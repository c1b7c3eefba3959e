package pglock

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// page is how many rows a list or a sweep reads in one round trip.
const page = 500

// row is one of function list.
type row struct {
	resource              string
	clock, token, touched int64
	holds                 string
}

// List implements driver.Store. It reads pages by resource: each page is a
// snapshot, and all of them are not. A damaged record ends it.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		after := ""
		for {
			rows, err := s.page(ctx, f, after)
			if err != nil {
				yield(driver.Status{}, err)
				return
			}
			for _, r := range rows {
				record, err := record(r.resource, r.token, r.touched, r.holds)
				if err != nil {
					yield(driver.Status{}, err)
					return
				}
				for _, status := range model.Statuses(record, model.Time(r.clock), f) {
					if !yield(status, nil) {
						return
					}
				}
			}
			if len(rows) < page {
				return
			}
			after = rows[len(rows)-1].resource
		}
	}
}

// page reads what comes after a resource. The rows are read to the end before any
// is yielded: whoever gets them may use the pool.
func (s *Store) page(ctx context.Context, f driver.Filter, after string) (rows []row, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	err = s.askBare(ctx, func(ctx context.Context) (*pgxpool.Conn, error) {
		rows = rows[:0] // another try
		return s.fromPool(ctx)
	}, s.do.list, []any{f.Resource, f.LockID, after, int32(page)}, func(rs pgx.Rows) error {
		var r row
		err := rs.Scan(&r.resource, &r.clock, &r.token, &r.touched, &r.holds)
		rows = append(rows, r)
		return err
	})
	return rows, err
}

// Sweep implements driver.Store: a round trip for each 500 records that it changes,
// be it that it only notes when to look at one again. The server decides, on its
// clock, row by row; rows that somebody has locked are left for the next sweep. A
// row that somebody waits for is not deleted.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if err := s.ready(ctx); err != nil {
		return total, err
	}
	for changed := 0; ; changed += page {
		most := page
		if q.Most > 0 {
			most = min(page, q.Most-changed)
		}
		var dropped, deleted int64
		var more bool
		err := s.askBare(ctx, s.fromEither, s.do.sweep, []any{q.Idle.Microseconds(), int32(most)}, func(rows pgx.Rows) error {
			return rows.Scan(&dropped, &deleted, &more)
		})
		if err != nil {
			return total, err
		}
		total.Holds += int(dropped)
		total.Records += int(deleted)
		if total.More = more && q.Most > 0 && changed+most >= q.Most; total.More || !more {
			return total, nil
		}
	}
}
