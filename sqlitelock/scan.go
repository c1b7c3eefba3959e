package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

// pageSize is how many records a Scan reads at a time. No transaction stays open
// while the caller looks at them: it would keep the log from being reset.
const pageSize = 256

// recent is for how long a record without holds stays listed, so that one in
// constant use is not listed and unlisted in turn.
const recent = model.Time(time.Minute / time.Microsecond)

// Scan implements cas.Backend. Damaged records do not hide the others: their
// errors come together, after all that can be read.
//
// A Scan of idle records, that is a sweep, also clears listed where it can.
func (s *store) Scan(ctx context.Context, q cas.Query) iter.Seq2[cas.Entry, error] {
	return func(yield func(cas.Entry, error) bool) {
		if q.Resource != "" {
			e, err := s.Load(ctx, q.Resource)
			if err != nil || e.Version != 0 && (q.Idle || len(e.Record.Holds) > 0) {
				yield(e, err)
			}
			return
		}
		var damaged error
		for p := (page{more: true}); p.more; {
			var err error
			if p, err = s.page(ctx, q.Idle, p.last); err != nil {
				yield(cas.Entry{}, err)
				return
			}
			for _, e := range p.entries {
				if !yield(e, nil) {
					return
				}
			}
			damaged = errors.Join(damaged, p.damaged)
		}
		if damaged != nil {
			yield(cas.Entry{}, damaged)
		}
	}
}

// page is a part of a Scan.
type page struct {
	entries []cas.Entry
	damaged error
	last    string // resource
	more    bool
}

// page reads the records after a resource.
func (s *store) page(ctx context.Context, idle bool, after string) (got page, err error) {
	text := scanListedSQL
	if idle {
		text = scanSQL
	}
	p, c, err := s.reader(ctx)
	if err != nil {
		return page{}, err
	}
	rows, unlist := 0, false
	err = s.run(ctx, p, c, func(c *conn) error {
		rows, got = 0, page{entries: make([]cas.Entry, 0, pageSize)}
		return c.query(text, func(row []driver.Value) error {
			rows++
			got.last, _ = row[4].(string)
			e, err := s.entry(got.last, row)
			if err != nil {
				got.damaged = errors.Join(got.damaged, err)
				return nil
			}
			got.entries = append(got.entries, e)
			_, listed := rowOf(e.Version)
			unlist = unlist || listed != nil && len(e.Record.Holds) == 0 && e.Record.Touched < e.Now-recent
			return nil
		}, after, int64(pageSize))
	})
	got.more = rows == pageSize
	if err == nil && idle && unlist {
		err = s.unlist(ctx, after, &got)
	}
	return got, err
}

// unlist clears listed where a record of the page has long had no holds.
func (s *store) unlist(ctx context.Context, after string, p *page) error {
	before := int64(s.clock.now() - recent)
	err := s.write(ctx, func(c *conn) error {
		_, err := c.exec(unlistSQL, after, p.last, before)
		return err
	})
	if err != nil {
		return err
	}
	// The versions say so: a stale one would only be refused.
	for i, e := range p.entries {
		touched, listed := rowOf(e.Version)
		if listed != nil && len(e.Record.Holds) == 0 && touched < before {
			p.entries[i].Version = versionOf(touched, false)
		}
	}
	return nil
}
