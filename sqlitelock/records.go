package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Load implements cas.Backend. It takes no lock that a writer waits for.
func (s *store) Load(ctx context.Context, resource string) (e cas.Entry, err error) {
	err = s.read(ctx, func(c *conn) error {
		e = cas.Entry{}
		err := c.query(loadSQL, func(row []driver.Value) (err error) {
			e, err = s.entry(resource, row)
			return err
		}, resource)
		if err == nil && e.Version == 0 {
			e, err = s.absent(c, resource)
		}
		return err
	})
	return e, err
}

// entry makes an Entry of touched, listed, token and holds.
func (s *store) entry(resource string, row []driver.Value) (cas.Entry, error) {
	e := cas.Entry{Record: model.Record{Resource: resource}}
	if err := readRecord(&e, row); err != nil {
		return e, s.damaged(resource, err)
	}
	e.Now = s.clock.now()
	return e, nil
}

// absent makes an Entry of a resource that had no row a moment ago. The clock
// is then above all that a deleted row can have had, even if it is a wall clock
// that was set back.
func (s *store) absent(c *conn, resource string) (cas.Entry, error) {
	floor, err := c.integer(floorSQL)
	if err != nil {
		return cas.Entry{}, err
	}
	s.clock.atLeast(model.Time(floor) + 1)
	return cas.Entry{Record: model.Record{Resource: resource}, Now: s.clock.now()}, nil
}

// damaged never guesses: a record read wrongly would be a lock granted twice.
func (s *store) damaged(resource string, err error) error {
	return fmt.Errorf("SQLite file %s: %w of %q: %w", s.file, hf.ErrDamaged, resource, err)
}

// readRecord reads touched, listed, token and holds.
func readRecord(e *cas.Entry, row []driver.Value) error {
	var touched, token int64
	if err := errors.Join(integers(row[:1], &touched), integers(row[2:3], &token)); err != nil {
		return err
	}
	if touched <= 0 || touched > hf.MaxToken || token <= 0 || token > hf.MaxToken {
		return fmt.Errorf("touched is %d, token is %d", touched, token)
	}
	e.Record.Touched, e.Record.Token = model.Time(touched), uint64(token)
	e.Version = versionOf(touched, row[1] != nil)
	switch text := row[3].(type) {
	case nil:
		return nil
	case string:
		holds, err := model.DecodeHolds([]byte(text))
		e.Record.Holds = holds
		return err
	default:
		return fmt.Errorf("holds are %T", text)
	}
}

// A version says what the row's touched is and whether it is listed, so that the
// statement of a change is chosen for the very row that it will find.
func versionOf(touched int64, listed bool) cas.Version {
	v := cas.Version(touched) << 1
	if listed {
		v |= 1
	}
	return v
}

func rowOf(v cas.Version) (touched int64, listed driver.Value) {
	if v&1 != 0 {
		listed = int64(1)
	}
	return int64(v >> 1), listed
}

// Swap implements cas.Backend. The change is one statement, which is applied or
// not: there is no answer to lose, short of the end of this process. ctx that
// ends while another process has the write lock leaves the change unsent.
func (s *store) Swap(ctx context.Context, c cas.Change) (done bool, err error) {
	st, err := statementOf(c)
	if err != nil {
		return false, err
	}
	err = s.write(ctx, func(c *conn) (err error) {
		s.reach(pointBegin)
		if done, err = st.apply(c); err == nil {
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

// change is the statement of a cas.Change. It changes one row or none.
type change struct {
	text   string
	values []driver.Value
}

func (st change) apply(c *conn) (done bool, err error) {
	n, err := c.exec(st.text, st.values...)
	return n == 1, err
}

func statementOf(c cas.Change) (change, error) {
	oldTouched, oldListed := rowOf(c.Old)
	if c.Delete {
		return change{deleteSQL, []driver.Value{c.New.Resource, oldTouched, oldListed}}, nil
	}
	var holds driver.Value // NULL: none
	if len(c.New.Holds) > 0 {
		text, err := model.EncodeHolds(c.New.Holds)
		if err != nil {
			return change{}, err
		}
		holds = string(text)
	}
	touched, token, freed := int64(c.New.Touched), int64(c.New.Token), int64(0)
	if c.Wake {
		freed = touched
	}
	if c.Old == 0 {
		return change{insertSQL, []driver.Value{c.New.Resource, touched, token, freed, holds, min(touched, token)}}, nil
	}
	text := updateSQL
	if holds != nil && oldListed == nil {
		text = updateListedSQL
	}
	return change{text, []driver.Value{touched, token, freed, holds, c.New.Resource, oldTouched, oldListed}}, nil
}
