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

// pageSize is the number of records that are read at a time. No transaction stays open
// while the caller uses them: it would keep the log from being restarted.
const pageSize = 256

// recent is how long a record without holds stays listed, so that a constantly used
// record does not change between listed and unlisted.
const recent = model.Time(time.Minute / time.Microsecond)

// Scan implements base.Backend.
func (s *store) Scan(ctx context.Context, resource string) iter.Seq2[base.Entry, error] {
	return func(yield func(base.Entry, error) bool) {
		if resource != "" {
			var e base.Entry
			err := s.read(ctx, func(c *conn) (err error) {
				e, _, err = s.load(c, resource)
				return err
			})
			if err != nil || inUse(e) {
				yield(e, err)
			}
			return
		}
		for e, err := range s.records(ctx, listedSQL, 0) {
			if (err != nil || inUse(e)) && !yield(e, err) {
				return
			}
		}
	}
}

func inUse(e base.Entry) bool { return len(e.Record.Holds)+len(e.Record.Places) > 0 }

// Due implements base.Backend. It reads every record that has holds or was used since the
// last sweep. It unlists records without holds that are no longer recent. From then on an
// index finds them, so a million of them cost nothing until they are due.
func (s *store) Due(ctx context.Context, idle time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		now := s.clock.now()
		var damaged error
		for _, text := range []string{listedSQL, idleSQL} {
			var stale []string
			for e, err := range s.records(ctx, text, now-model.Time(idle/time.Microsecond)) {
				switch name := e.Record.Resource; {
				case errors.Is(err, hf.ErrDamaged):
					damaged = errors.Join(damaged, err)
				case err != nil:
					yield("", err)
					return
				case text == listedSQL && !inUse(e) && e.Record.Touched < now-recent:
					if stale, err = s.unlist(ctx, append(stale, name), pageSize, now-recent); err != nil {
						yield("", err)
						return
					}
				case model.Due(e.Record, e.Now, idle) && !yield(name, nil):
					return
				}
			}
			if _, err := s.unlist(ctx, stale, 1, now-recent); err != nil {
				yield("", err)
				return
			}
		}
		if damaged != nil {
			yield("", damaged)
		}
	}
}

// unlist clears listed in the named records if they have no holds and were not touched
// after since. If there are fewer names than least, it does nothing. It returns the
// remaining names.
func (s *store) unlist(ctx context.Context, names []string, least int, since model.Time) (left []string, err error) {
	if len(names) < least {
		return names, nil
	}
	return names[:0], s.write(ctx, false, func(c *conn) error {
		_, err := c.exec(unlistSQL, jsonArray(names), int64(since))
		return err
	}, nil)
}

// records yields the rows that listedSQL or idleSQL selects, a page at a time. An error
// about damaged rows comes last.
func (s *store) records(ctx context.Context, text string, latest model.Time) iter.Seq2[base.Entry, error] {
	return func(yield func(base.Entry, error) bool) {
		var damaged error
		last := []driver.Value{int64(-1), ""} // touched and resource
		for rows := pageSize; rows == pageSize; {
			var entries []base.Entry
			var unreadable error
			next := last
			err := s.read(ctx, func(c *conn) error {
				entries, unreadable, rows = nil, nil, 0
				return c.query(text, func(row []driver.Value) error {
					rows++
					next = []driver.Value{row[0], row[4]}
					if e, _, err := s.entry(row); err == nil {
						entries = append(entries, e)
					} else {
						unreadable = errors.Join(unreadable, err)
					}
					return nil
				}, int64(latest), last[0], last[1], int64(pageSize))
			})
			if err != nil {
				yield(base.Entry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			last, damaged = next, errors.Join(damaged, unreadable)
		}
		if damaged != nil {
			yield(base.Entry{}, damaged)
		}
	}
}
