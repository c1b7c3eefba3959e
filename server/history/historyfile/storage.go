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
	"slices"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-go/holdfast/server/history"
)

const (
	// appID marks the file as a history of Holdfast, and schemaVersion how its tables are.
	appID         = 0x48464869
	schemaVersion = 2
	// pageSize is that of the file.
	pageSize = 4096
)

//go:embed schema.sql
var schema string

// storage keeps holds in a file. It implements history.Storage.
type storage struct {
	path  string
	was   fs.FileInfo // the file, when it was opened
	keep  time.Duration
	pages int64
	db    *sql.DB // one connection, which keeps its lock
}

func open(ctx context.Context, path string, keep time.Duration, maxBytes int64) (*storage, error) {
	if err := prepare(path); err != nil {
		return nil, err
	}
	s := &storage{path: path, keep: keep, pages: maxBytes / pageSize}
	if err := s.open(ctx); err != nil {
		_ = s.Close()
		return nil, s.explain(err)
	}
	return s, nil
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
	if err != nil {
		return err
	}
	s.was, err = os.Lstat(s.path)
	return err
}

var (
	errInUse   = errors.New("another server keeps its history in it, or a program has it open: each server needs a file of its own")
	errForeign = errors.New("it is not a history of Holdfast: another program has made it; name another file. Nothing was changed")
	errLayout  = errors.New("another version of Holdfast has made it, with another layout; move it away, with its -journal if there is one, " +
		"and the server makes a new one. Nothing was changed")
	errDamaged = errors.New("it is damaged; move it away, with its -journal, and the server makes a new one. Nothing was deleted")
)

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

// explain says which file an error is about, and what to do if nothing else helps.
func (s *storage) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case isCode(err, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
		err = errInUse
	case isCode(err, sqlite3.SQLITE_NOTADB):
		err = errForeign
	case isCode(err, sqlite3.SQLITE_CORRUPT):
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return fmt.Errorf("history %s: %w", s.path, err)
}

// isCode reports whether SQLite has answered with one of the primary codes.
func isCode(err error, codes ...int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && slices.Contains(codes, e.Code()&0xff)
}

var _ history.Storage = (*storage)(nil)
