package sqlitelock

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// causes are SQLite's primary result codes that last until somebody mends the
// file, and what to say of them.
var causes = map[int]string{
	sqlite3.SQLITE_PERM:     "may not be accessed",
	sqlite3.SQLITE_READONLY: "is read-only: the file and its folder must be writable",
	sqlite3.SQLITE_CORRUPT:  "is damaged",
	sqlite3.SQLITE_FULL:     "cannot grow: the disk is full",
	sqlite3.SQLITE_CANTOPEN: "cannot be opened: the file and its folder must be readable and writable",
	sqlite3.SQLITE_NOTADB:   "is not a SQLite database",
}

func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return sqlite3.SQLITE_OK
	}
	return e.Code() & 0xff // the extended code says more than is needed
}

// busy reports that another process was in the way. Nothing was changed.
func busy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_PROTOCOL
}

// full reports that there is no room on the disk. Nothing was changed.
func full(err error) bool { return code(err) == sqlite3.SQLITE_FULL }

// refused reports that SQLite did not accept a statement. The statements do not
// change, so it is the schema that did.
func refused(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_ERROR // with its extended codes it passes by itself
}

// cause returns what SQLite said, without what was added to it.
func cause(err error) error {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e
	}
	return err
}

// wrap names the file. What SQLite reports as lasting becomes
// driver.ErrUnusable; all else stays of unknown outcome.
func (s *store) wrap(err error) error {
	if err == nil {
		return nil
	}
	if what, ok := causes[code(err)]; ok {
		return unusable(s.file.path, what, err)
	}
	if refused(err) {
		return unusable(s.file.path, "is not as Holdfast made it: a table or a column is missing", err)
	}
	return fmt.Errorf("SQLite file %s: %w", s.file.path, err)
}
