package sqlitelock

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-go/holdfast/driver"
)

// causes has texts for SQLite's primary result codes that last until somebody fixes the
// file.
var causes = map[int]string{
	sqlite3.SQLITE_PERM:     "may not be accessed",
	sqlite3.SQLITE_READONLY: "is read-only: the file and its folder must be writable",
	sqlite3.SQLITE_CORRUPT:  "is damaged",
	sqlite3.SQLITE_CANTOPEN: "cannot be opened: the file and its folder must be readable and writable",
	sqlite3.SQLITE_NOTADB:   "is not a SQLite database",
}

// noSpaceCodes lists the extended codes for a lack of space, which may pass: on the disk,
// for SQLite's shared memory, and because of the limit of a file's size.
var noSpaceCodes = []int{sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE}

// extendedCode returns 0 if the error is not from SQLite.
func extendedCode(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

func code(err error) int { return extendedCode(err) & 0xff }

// busy reports whether another process was in the way, so that nothing was changed.
func busy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_PROTOCOL
}

// wrap adds the name of the file to an error. Errors of SQLite that do not pass by
// themselves become driver.ErrUnusable. All others mean that the outcome is unknown.
func (s *store) wrap(err error) error {
	if err == nil || errors.Is(err, driver.ErrUnusable) && strings.Contains(err.Error(), s.file.path) {
		return err // such an error already names the file
	}
	if what, ok := causes[code(err)]; ok {
		return unusable(s.file.path, what, err)
	}
	if extendedCode(err) == sqlite3.SQLITE_ERROR {
		// SQLite refused a statement. Statements are constant, so the schema has changed.
		// Errors with an extended code are temporary.
		return unusable(s.file.path, "is not as Holdfast made it: a table or a column is missing", err)
	}
	if slices.Contains(noSpaceCodes, extendedCode(err)) {
		return fmt.Errorf("SQLite file %s could not grow: the disk may be full, or ulimit -f too low: %w", s.file.path, err)
	}
	return fmt.Errorf("SQLite file %s: %w", s.file.path, err)
}

// unusable returns an error that names the file, but only once.
func unusable(path, what string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) && p.Path == path {
		err = p.Err
	}
	return fmt.Errorf("%w: SQLite file %s %s: %w", driver.ErrUnusable, path, what, err)
}
