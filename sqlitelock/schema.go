package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// The marks of Holdfast's files, and the version of the schema that this package uses.
const (
	applicationID = 0x484f4c44 // "HOLD"
	schemaVersion = 2
)

// prepare prepares the file for use. It writes nothing to a file of another program.
func (s *store) prepare(ctx context.Context) (err error) {
	if s.clock.source.boot != nil {
		if s.clock.bootID, err = s.clock.source.boot(); err != nil {
			return fmt.Errorf("SQLite file %s: %w", s.file.path, err)
		}
	}
	return s.try(ctx, s.writer, false, func(c *conn) error {
		err := s.prepareOn(c)
		if code(err) == sqlite3.SQLITE_IOERR {
			// No request is under way, so no outcome is unknown. SQLite also returns this
			// code if a full disk has no room for its shared memory.
			return fmt.Errorf("%w: it cannot be prepared: %w", hf.ErrUnusable, err)
		}
		return err
	}, atOnce, nil)
}

func (s *store) prepareOn(c *conn) error {
	empty, err := s.inspect(c)
	if err != nil {
		return err
	}
	type readOnly interface {
		IsReadOnly(schema string) (bool, error)
	}
	if is, err := c.raw.(readOnly).IsReadOnly("main"); err != nil {
		return err
	} else if is {
		return fmt.Errorf("%w: it %s", hf.ErrUnusable, causes[sqlite3.SQLITE_READONLY])
	}
	if _, err := c.exec(walSQL); err != nil {
		return err
	}
	known := false
	if !empty {
		if known, _, err = s.readClock(c); err != nil {
			return err
		}
		// The next steps may wait for other processes, and the files may be replaced.
		if err := s.file.remember(); err != nil {
			return err
		}
	}
	if !known {
		if err := s.transact(c, s.complete); err != nil {
			return err
		}
	}
	if err := s.file.remember(); err != nil {
		return err
	}
	return s.clock.check()
}

// inspect refuses a file of another program, and reports whether the file is empty.
func (s *store) inspect(c *conn) (empty bool, err error) {
	var id, version, objects int64
	err = c.integers(inspectSQL, nil, &id, &version, &objects)
	switch {
	case err != nil:
		return false, err
	case id == 0 && version == 0 && objects == 0:
		return true, nil
	case id != applicationID:
		return false, fmt.Errorf("%w: the database was not made by Holdfast; use a file of its own", hf.ErrUnusable)
	case version != schemaVersion:
		return false, fmt.Errorf("%w: the database has schema %d, this program has schema %d; use the newer program, or another file",
			hf.ErrUnusable, version, schemaVersion)
	}
	return false, nil
}

// complete creates what is missing, under the write lock: another process may have done
// it already.
func (s *store) complete(c *conn) error {
	empty, err := s.inspect(c)
	if err != nil {
		return err
	}
	if empty {
		if _, err := c.exec(schemaSQL); err != nil {
			return err
		}
	}
	known, continues, err := s.readClock(c)
	if err != nil || known {
		return err
	}
	if continues {
		_, err = c.exec(anchorSQL, s.clock.bootID, int64(s.clock.base))
		return err
	}
	// No record may be ahead of the clock: otherwise a hold could last until the wall
	// clock is set, and not only for its TTL.
	var newest int64
	if err := c.integers(newestSQL, nil, &newest); err != nil {
		return err
	}
	s.clock.anchor(model.Time(newest))
	if err := s.clock.check(); err != nil {
		return err // the clock would stay wrong until the next boot
	}
	_, err = c.exec(anchorSQL, s.clock.bootID, int64(s.clock.base))
	return err
}

// readClock reports whether the base of this boot is known, and whether the base in the
// file may be of this boot under another ID. In that case it is used: another process may
// have the file open, and a second base would be a second clock. A clock without a boot
// ID needs no base.
func (s *store) readClock(c *conn) (known, continues bool, err error) {
	var same, may, base, floor, up int64
	if s.clock.bootID != "" {
		// Changes in one microsecond are a microsecond apart, so the last may be ahead.
		up = int64(s.clock.sinceBoot() + model.Time(time.Second/time.Microsecond))
	}
	err = c.integers(clockSQL, []driver.Value{s.clock.bootID, up}, &same, &may, &base, &floor)
	switch {
	case errors.Is(err, errNoIntegers):
		return false, false, fmt.Errorf("%w: table meta cannot be read: %w", hf.ErrUnusable, err)
	case err != nil:
		return false, false, err
	case s.clock.bootID == "":
		return true, false, nil // a clock raised to the floor would keep holds alive until the wall clock gets there
	}
	s.clock.atLeast(model.Time(floor) + 1)
	s.clock.base = model.Time(base)
	// The ID of a container does not replace another ID: a container has no better one.
	known = same == 1 || may == 1 && strings.HasPrefix(s.clock.bootID, containerPrefix)
	return known, may == 1, nil
}
