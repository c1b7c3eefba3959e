package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"iter"
	"time"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
)

// pageSize is how many records a Scan reads at a time. No transaction stays open
// while the caller looks at them: it would keep the log from being reset.
const pageSize = 256

// recent is for how long a record without holds stays listed, so that one in
// constant use is not listed and unlisted in turn.
const recent = model.Time(time.Minute / time.Microsecond)

// Scan implements base.Backend.
func (s *store) Scan(ctx context.Context, resource string) iter.Seq2[base.Entry, error] {
	if resource == "" {
		return s.listed(ctx, nil)
	}
	return func(yield func(base.Entry, error) bool) {
		var e base.Entry
		err := s.read(ctx, func(c *conn) (err error) {
			e, _, err = s.load(c, resource)
			return err
		})
		if err != nil || len(e.Record.Holds) > 0 {
			yield(e, err)
		}
	}
}

// listed yields the records that are listed, page by page. then is told of each
// page when its records were yielded.
func (s *store) listed(ctx context.Context, then func(after string, p page) error) iter.Seq2[base.Entry, error] {
	return func(yield func(base.Entry, error) bool) {
		var damaged error
		for p := (page{more: true}); p.more; {
			after := p.last
			var err error
			if p, err = s.page(ctx, after); err != nil {
				yield(base.Entry{}, err)
				return
			}
			for _, e := range p.entries {
				if (then != nil || len(e.Record.Holds) > 0) && !yield(e, nil) {
					return
				}
			}
			damaged = errors.Join(damaged, p.damaged)
			if then == nil {
				continue
			}
			if err := then(after, p); err != nil {
				yield(base.Entry{}, err)
				return
			}
		}
		if damaged != nil {
			yield(base.Entry{}, damaged)
		}
	}
}

// page is a part of what is listed.
type page struct {
	entries []base.Entry
	damaged error
	last    string // resource
	more    bool
}

// page reads the listed records after a resource.
func (s *store) page(ctx context.Context, after string) (got page, err error) {
	err = s.read(ctx, func(c *conn) error {
		rows := 0
		got = page{entries: make([]base.Entry, 0, pageSize)}
		err := c.query(listedSQL, func(row []driver.Value) error {
			rows++
			got.last, _ = row[4].(string)
			e, _, err := s.entry(row)
			if err != nil {
				got.damaged = errors.Join(got.damaged, err)
				return nil
			}
			got.entries = append(got.entries, e)
			return nil
		}, after, int64(pageSize))
		got.more = rows == pageSize
		return err
	})
	return got, err
}

// Due implements base.Backend. Of what was used since the last sweep, or has holds,
// it reads all; what has long been without holds it unlists, and finds from then on
// by an index, so that a million of them cost nothing until they are due.
func (s *store) Due(ctx context.Context, idle time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var damaged, last error
		for e, err := range s.listed(ctx, func(after string, p page) error { return s.unlist(ctx, after, p) }) {
			if errors.Is(err, hf.ErrDamaged) {
				damaged = err // and the last that comes
				break
			}
			if err != nil {
				yield("", err)
				return
			}
			if model.Due(e.Record, e.Now, idle) && !yield(e.Record.Resource, nil) {
				return
			}
		}
		before := s.clock.now() - model.Time(idle/time.Microsecond)
		for p := (idlePage{touched: -1, more: true}); p.more && last == nil; {
			if p, last = s.idlePage(ctx, before, p); last != nil {
				break
			}
			for _, name := range p.names {
				if !yield(name, nil) {
					return
				}
			}
		}
		if err := errors.Join(last, damaged); err != nil {
			yield("", err)
		}
	}
}

// unlist clears listed where a record of the page has long had no holds.
func (s *store) unlist(ctx context.Context, after string, p page) error {
	now := s.clock.now()
	any := false
	for _, e := range p.entries {
		any = any || len(e.Record.Holds) == 0 && e.Record.Touched < now-recent
	}
	if !any {
		return nil
	}
	if err := s.line.Enter(ctx, false); err != nil {
		return s.wrap(err)
	}
	defer s.line.Leave()
	return s.write(ctx, false, func(c *conn) error {
		return s.transact(c, func() error {
			_, err := c.exec(unlistSQL, after, p.last, int64(now-recent))
			return err
		})
	}, nil)
}

// idlePage is a part of what is not listed.
type idlePage struct {
	names   []string
	touched int64 // of the last one
	more    bool
}

// idlePage reads what was last changed no later than before, after another page.
func (s *store) idlePage(ctx context.Context, before model.Time, after idlePage) (got idlePage, err error) {
	last := ""
	if len(after.names) > 0 {
		last = after.names[len(after.names)-1]
	}
	err = s.read(ctx, func(c *conn) error {
		got = idlePage{names: make([]string, 0, pageSize), touched: after.touched}
		err := c.query(idleSQL, func(row []driver.Value) error {
			name, _ := row[1].(string)
			got.names = append(got.names, name)
			return integers(row[:1], &got.touched)
		}, int64(before), after.touched, last, int64(pageSize))
		got.more = len(got.names) == pageSize
		return err
	})
	return got, err
}
