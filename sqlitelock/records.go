package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Load implements cas.Backend. It takes no lock that a writer waits for.
func (s *store) Load(ctx context.Context, resource string) (e cas.Entry, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(loadSQL, func(row []driver.Value) (err error) {
			e, err = s.entry(resource, row)
			return err
		}, resource)
	})
	return e, err
}

// entry makes an Entry of floor, touched, token and holds.
func (s *store) entry(resource string, row []driver.Value) (cas.Entry, error) {
	e := cas.Entry{Record: model.Record{Resource: resource}}
	damaged := func(format string, args ...any) (cas.Entry, error) {
		return cas.Entry{}, fmt.Errorf("SQLite file %s: record of %q: %w: %s",
			s.file, resource, hf.ErrDamaged, fmt.Sprintf(format, args...))
	}
	var floor int64
	if err := integers(row, &floor); err != nil {
		return damaged("table meta: %v", err)
	}
	if row[1] != nil {
		var touched, token int64
		if err := integers(row[1:], &touched, &token); err != nil {
			return damaged("%v", err)
		}
		if touched <= 0 || touched > hf.MaxToken || token <= 0 || token > hf.MaxToken {
			return damaged("touched is %d, token is %d", touched, token)
		}
		e.Record.Touched, e.Record.Token, e.Version = model.Time(touched), uint64(token), cas.Version(touched)
		switch text := row[3].(type) {
		case nil:
		case string:
			holds, err := model.DecodeHolds([]byte(text))
			if err != nil {
				return cas.Entry{}, fmt.Errorf("SQLite file %s: record of %q: %w", s.file, resource, err)
			}
			e.Record.Holds = holds
		default:
			return damaged("holds are %T", text)
		}
	}
	// A wall clock may have been set back below what another process deleted.
	s.clock.atLeast(model.Time(floor) + 1)
	e.Now = s.clock.now()
	return e, nil
}

// Swap implements cas.Backend. The change is one statement, which is applied or
// not: there is no answer to lose, short of the end of this process. ctx that
// ends while another process has the write lock leaves the change unsent.
func (s *store) Swap(ctx context.Context, c cas.Change) (done bool, err error) {
	apply, err := statementOf(c)
	if err != nil {
		return false, err
	}
	err = s.write(ctx, func(conn *conn) (err error) {
		s.reach(pointBegin)
		if done, err = apply(conn); err == nil {
			s.reach(pointDone)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	if done && c.Wake {
		s.watcher.freed(c.New.Resource, c.New.Touched)
	}
	return done, nil
}

// statementOf returns the statement of a change, ready to be executed.
func statementOf(c cas.Change) (func(*conn) (done bool, err error), error) {
	text, values := deleteSQL, []driver.Value{c.New.Resource, int64(c.Old)}
	if !c.Delete {
		var holds driver.Value // NULL: none
		if len(c.New.Holds) > 0 {
			encoded, err := model.EncodeHolds(c.New.Holds)
			if err != nil {
				return nil, err
			}
			holds = string(encoded)
		}
		touched, token, freed := int64(c.New.Touched), int64(c.New.Token), int64(0)
		if c.Wake {
			freed = touched
		}
		if c.Old == 0 {
			text, values = insertSQL, []driver.Value{c.New.Resource, touched, token, holds, freed, min(touched, token)}
		} else {
			text, values = updateSQL, []driver.Value{touched, token, holds, freed, c.New.Resource, int64(c.Old)}
		}
	}
	return func(conn *conn) (bool, error) {
		n, err := conn.exec(text, values...)
		return n == 1, err
	}, nil
}

// pageSize is how many records a Scan reads at a time. No transaction stays open
// while the caller looks at them: it would keep the log from being reset.
const pageSize = 256

// Scan implements cas.Backend. Damaged records do not hide the others: their
// errors come together, after all that can be read.
func (s *store) Scan(ctx context.Context, q cas.Query) iter.Seq2[cas.Entry, error] {
	if q.Resource != "" {
		return s.scanOne(ctx, q)
	}
	return func(yield func(cas.Entry, error) bool) {
		var damaged error
		for after, more := "", true; more; {
			page, err := s.page(ctx, q, after)
			if err != nil {
				yield(cas.Entry{}, err)
				return
			}
			for _, e := range page.entries {
				if !yield(e, nil) {
					return
				}
			}
			damaged = errors.Join(damaged, page.damaged)
			after, more = page.last, page.rows == pageSize
		}
		if damaged != nil {
			yield(cas.Entry{}, damaged)
		}
	}
}

func (s *store) scanOne(ctx context.Context, q cas.Query) iter.Seq2[cas.Entry, error] {
	return func(yield func(cas.Entry, error) bool) {
		e, err := s.Load(ctx, q.Resource)
		if err != nil || e.Version != 0 && (q.Idle || len(e.Record.Holds) > 0) {
			yield(e, err)
		}
	}
}

// page is a part of a Scan.
type page struct {
	entries []cas.Entry
	damaged error
	rows    int
	last    string
}

func (s *store) page(ctx context.Context, q cas.Query, after string) (page, error) {
	text := scanOccupiedSQL
	if q.Idle {
		text = scanSQL
	}
	p, c, err := s.reader(ctx)
	if err != nil {
		return page{}, err
	}
	var got page
	err = s.run(ctx, p, c, func(c *conn) error {
		got = page{entries: make([]cas.Entry, 0, pageSize)}
		return c.query(text, func(row []driver.Value) error {
			got.rows++
			got.last, _ = row[4].(string)
			e, err := s.entry(got.last, row)
			if err != nil {
				got.damaged = errors.Join(got.damaged, err)
				return nil
			}
			got.entries = append(got.entries, e)
			return nil
		}, after, int64(pageSize))
	})
	return got, err
}
