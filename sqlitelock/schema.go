package sqlitelock

import (
	"context"
	"database/sql/driver"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// What marks a file as ours, and the schema this package reads and writes. Both
// are repeated in schema.sql.
const (
	applicationID = 0x484f4c44 // "HOLD"
	schemaVersion = 1
)

// prepare makes the file ready: nothing is written to one that is not ours, and
// to one that is only what is missing.
func (s *store) prepare(ctx context.Context) error {
	boot, err := s.clock.source.boot()
	if err != nil {
		return fmt.Errorf("SQLite file %s: %w", s.file.path, err)
	}
	s.clock.bootID = boot
	err = s.write(ctx, false, func(c *conn) error {
		empty, err := s.inspect(c)
		if err != nil {
			return err
		}
		if ro, err := readOnly(c); err != nil {
			return err
		} else if ro {
			return fmt.Errorf("%w: it %s", hf.ErrUnusable, causes[sqlite3.SQLITE_READONLY])
		}
		// Two processes may be here at once with a new file: each of the steps
		// finds out, under the lock it needs, whether the other was first.
		if err := c.script(walSQL); err != nil {
			return err
		}
		if empty {
			if err := s.create(c); err != nil {
				return err
			}
			// What is only in the log needs room in the file later, when the disk may be
			// full. A reader in the way puts that off, and no more.
			checkpoint(c, passiveSQL)
		}
		if err := c.script(idleIndexSQL); err != nil { // older files have none
			return err
		}
		if err := s.startClock(c); err != nil {
			return err
		}
		return s.file.remember()
	}, nil)
	if code(err) == sqlite3.SQLITE_IOERR {
		// Nothing was asked for yet whose outcome could be unknown. A full disk
		// is reported so, where there is no room for SQLite's shared memory.
		return unusable(s.file.path, "cannot be prepared", cause(err))
	}
	return err
}

// readOnly reports whether SQLite could open the file only for reading.
func readOnly(c *conn) (bool, error) {
	return c.raw.(interface {
		IsReadOnly(schema string) (bool, error)
	}).IsReadOnly("main")
}

// inspect refuses a file that is not ours, and reports one without a schema.
func (s *store) inspect(c *conn) (empty bool, err error) {
	var id, version, objects int64
	err = c.query(inspectSQL, func(row []driver.Value) error {
		return integers(row, &id, &version, &objects)
	})
	switch {
	case err != nil:
		return false, err
	case id == 0 && version == 0 && objects == 0:
		return true, nil
	case id != applicationID:
		return false, fmt.Errorf("%w: the database was not made by Holdfast; use a file of its own", hf.ErrUnusable)
	case version != schemaVersion:
		return false, fmt.Errorf("%w: the database has schema %d, this program knows schema %d; use the newer program",
			hf.ErrUnusable, version, schemaVersion)
	}
	return false, nil
}

// create makes the schema unless another process has done so meanwhile.
func (s *store) create(c *conn) error {
	return s.transact(c, func() error {
		empty, err := s.inspect(c)
		if err != nil || !empty {
			return err
		}
		return c.script(schemaSQL)
	})
}

// startClock finds where the clock stands in this boot, or decides it.
func (s *store) startClock(c *conn) error {
	known, err := s.readClock(c)
	if err != nil {
		return err
	}
	if !known {
		err = s.transact(c, func() error {
			if known, err = s.readClock(c); err != nil || known {
				return err
			}
			// Nothing of before the boot may lie ahead of the clock, or a hold
			// could last until the wall clock is set: not only its TTL.
			newest, err := c.integer(newestSQL)
			if err != nil {
				return err
			}
			s.clock.anchor(max(model.Time(newest), model.Time(s.clock.seen.Load())))
			_, err = c.exec(anchorSQL, s.clock.bootID, int64(s.clock.base))
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.clock.check()
}

// readClock reports whether the base of this boot is known. A clock that knows
// no boots needs none.
func (s *store) readClock(c *conn) (known bool, err error) {
	rows := 0
	err = c.query(metaSQL, func(row []driver.Value) error {
		rows++
		boot, ok := row[0].(string)
		var base, floor int64
		if err := integers(row[1:], &base, &floor); err != nil || !ok {
			return fmt.Errorf("%w: the row of table meta cannot be read", hf.ErrUnusable)
		}
		if s.clock.bootID == "" {
			known = true // to wait for the floor would keep holds alive until the wall clock is there
			return nil
		}
		s.clock.atLeast(model.Time(floor) + 1)
		s.clock.base, known = model.Time(base), boot == s.clock.bootID
		return nil
	})
	if err == nil && rows != 1 {
		err = fmt.Errorf("%w: table meta has %d rows instead of one", hf.ErrUnusable, rows)
	}
	return known, err
}

// transact runs f between BEGIN IMMEDIATE and COMMIT. After an error the caller
// rolls back what f did.
func (s *store) transact(c *conn, f func() error) error {
	s.reach(pointBegin)
	if _, err := c.exec(beginSQL); err != nil {
		return err
	}
	s.reach(pointBegun)
	if err := s.file.check(); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	s.reach(pointWritten)
	if _, err := c.exec(commitSQL); err != nil {
		return err
	}
	s.reach(pointDone)
	return nil
}

// integers assigns the numbers of a row.
func integers(row []driver.Value, to ...*int64) error {
	for i, p := range to {
		n, ok := row[i].(int64)
		if !ok {
			return fmt.Errorf("column %d is %T, not an integer", i+1, row[i])
		}
		*p = n
	}
	return nil
}
