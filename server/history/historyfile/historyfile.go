// Package historyfile keeps a history in a SQLite file.
//
// The file is that of one server: a second one gets an error. It can be read by its owner
// alone, and has a journal (-journal) beside it. It has no more than 128 MiB, and no hold that
// ended more than seven days ago. If there is no room, the oldest goes of the resource of which
// that caller has most who has most. The end of the process loses nothing that was written, at
// whatever moment; a power loss may lose the last seconds.
package historyfile

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-go/holdfast/server/history"
)

const (
	keep     = 7 * 24 * time.Hour
	maxBytes = 128 << 20
	pageSize = 4096
	// appID marks the file as a history of Holdfast, and schemaVersion how its tables are.
	appID         = 0x48464869
	schemaVersion = 3
)

//go:embed schema.sql
var schema string

// Open opens the file, and makes it if it is missing. It refuses a file that others may read,
// that another server uses, that another program or another version has made, or that is damaged:
// it then changes nothing. The caller closes the Log.
func Open(ctx context.Context, path string, opts *history.Options) (*history.Log, error) {
	return open(ctx, path, keep, maxBytes, opts)
}

func open(ctx context.Context, path string, keep time.Duration, maxBytes int64, opts *history.Options) (*history.Log, error) {
	if path == "" {
		return nil, errors.New("history: the file has no name")
	}
	if err := prepare(path); err != nil {
		return nil, err
	}
	s := &storage{path: path, keep: keep, pages: maxBytes / pageSize}
	if err := s.open(ctx); err != nil {
		_ = s.Close()
		return nil, s.explain(err)
	}
	return history.New(ctx, s, opts)
}

// prepare makes the file for its owner alone, if it is missing, and returns an error unless it
// is a regular file that nobody else may read or write. It opens no file that exists: to close it
// again would drop the locks that SQLite has on it in this process.
func prepare(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return errors.Join(f.Chmod(0o600), f.Close()) // a umask may have taken rights of the owner
	}
	var info fs.FileInfo
	if errors.Is(err, fs.ErrExist) {
		info, err = os.Lstat(path)
	}
	switch {
	case err != nil:
		return fmt.Errorf("history: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("history %s: it is not a regular file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("history %s: it can be used by others than its owner (mode %#o), who would see what is locked, and by whom: chmod 600 it",
			path, info.Mode().Perm())
	}
	return nil
}

// storage keeps holds in a file. It implements history.Storage.
type storage struct {
	path  string
	was   fs.FileInfo // the file, when it was opened
	keep  time.Duration
	pages int64
	db    *sql.DB // one connection, which keeps its lock
}

func (s *storage) open(ctx context.Context) (err error) {
	// A transaction takes the lock at its beginning, and the connection keeps it: no other program
	// can delay a change.
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: s.path}).EscapedPath(), RawQuery: url.Values{
		"_pragma": {"locking_mode(EXCLUSIVE)", "busy_timeout(0)", "synchronous(NORMAL)"}, "mode": {"rw"}, "_txlock": {"exclusive"},
	}.Encode()}
	if s.db, err = sql.Open("sqlite", u.String()); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(1)
	if err = s.change(ctx, func(tx *sql.Tx) error { return check(ctx, tx) }); err != nil {
		return err
	}
	// No write-ahead log: it needs a file in memory. Where the disk hangs, a thread that
	// touches that stands still inside the program, and the garbage collector waits for it, and
	// with it all locks. Where the file is cut, the program is killed. And the log grows without
	// end while there are readers.
	if _, err = s.db.ExecContext(ctx, fmt.Sprintf("PRAGMA journal_mode=TRUNCATE; PRAGMA max_page_count=%d", s.pages)); err != nil {
		return err
	}
	err = s.change(ctx, func(tx *sql.Tx) error { // what is there already stays
		_, err := tx.ExecContext(ctx, schema, time.Now().UnixMicro())
		return err
	})
	if err == nil {
		s.was, err = os.Lstat(s.path)
	}
	return err
}

// check checks that the file is new, or is an undamaged history.
func check(ctx context.Context, tx *sql.Tx) error {
	var id, version, tables int64
	err := tx.QueryRowContext(ctx, `SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id a, pragma_user_version v`).Scan(&id, &version, &tables)
	switch {
	case err != nil:
		return err
	case id == 0 && version == 0 && tables == 0:
		return nil
	case id != appID:
		return errForeign
	case version != schemaVersion:
		return errLayout
	}
	var found string
	if err := tx.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, found)
	}
	return nil
}

// Close implements history.Storage.
func (s *storage) Close() error { return s.explain(s.db.Close()) }

var (
	errInUse   = errors.New("another server keeps its history in it, or a program has it open: each server needs a file of its own")
	errForeign = errors.New("it is not a history of Holdfast: another program has made it; name another file. Nothing was changed")
	errLayout  = errors.New("another version of Holdfast has made it, with another layout; move it away, with its -journal if there is one, " +
		"and the server makes a new one. Nothing was changed")
	errDamaged = errors.New("it is damaged; move it away, with its -journal, and the server makes a new one. Nothing was deleted")
	// errReplaced: SQLite would go on with a file that nobody finds, and with its journal beside
	// the file that has the name now, perhaps the history of another server.
	errReplaced = errors.New("somebody has removed or replaced it; start the server again, which makes a new one")
)

// explain says which file an error is about, and what to do if nothing else helps.
func (s *storage) explain(err error) error {
	is := func(codes ...int) bool { // the primary codes of SQLite
		var e *sqlite.Error
		return errors.As(err, &e) && slices.Contains(codes, e.Code()&0xff)
	}
	switch {
	case err == nil:
		return nil
	case is(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
		err = errInUse
	case is(sqlite3.SQLITE_NOTADB):
		err = errForeign
	case is(sqlite3.SQLITE_CORRUPT):
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return fmt.Errorf("history %s: %w", s.path, err)
}
