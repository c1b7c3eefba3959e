package sqlitelock

import (
	"database/sql/driver"
	"errors"
	"fmt"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
)

// load reads the record of a resource, and whether it is listed.
func (s *store) load(c *conn, resource string) (e base.Entry, listed bool, err error) {
	found := false
	err = c.query(loadSQL, func(row []driver.Value) (err error) {
		found = true
		e, listed, err = s.entry(row)
		return err
	}, resource)
	if err != nil || found {
		return e, listed, err
	}
	floor, err := c.integer(floorSQL)
	if err != nil {
		return base.Entry{}, false, err
	}
	return base.Missing(resource, uint64(max(floor, 0)), s.clock.now()), false, nil
}

// entry makes an Entry of touched, listed, token, holds and resource. It never
// guesses: a record read wrongly would be a lock granted twice.
func (s *store) entry(row []driver.Value) (e base.Entry, listed bool, err error) {
	name, ok := row[4].(string)
	if !ok {
		return base.Entry{}, false, fmt.Errorf("SQLite file %s: %w: its name is %T", s.file.path, hf.ErrDamaged, row[4])
	}
	e = base.Entry{Record: model.Record{Resource: name}}
	if err := readRecord(&e.Record, row); err != nil {
		return e, false, fmt.Errorf("SQLite file %s: %w of %q: %w", s.file.path, hf.ErrDamaged, name, err)
	}
	e.Now = s.clock.now()
	return e, row[1] != nil, nil
}

func readRecord(r *model.Record, row []driver.Value) error {
	var touched, token int64
	if err := errors.Join(integers(row[:1], &touched), integers(row[2:3], &token)); err != nil {
		return err
	}
	if touched <= 0 || touched > hf.MaxToken || token <= 0 || token > hf.MaxToken {
		return fmt.Errorf("touched is %d, token is %d", touched, token)
	}
	r.Touched, r.Token = model.Time(touched), uint64(token)
	switch text := row[3].(type) {
	case nil:
		return nil
	case string:
		holds, err := model.DecodeHolds([]byte(text))
		r.Holds = holds
		return err
	default:
		return fmt.Errorf("holds are %T", text)
	}
}
