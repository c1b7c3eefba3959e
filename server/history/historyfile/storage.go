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
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
)

const (
	// appID marks the file as a history of Holdfast, and schemaVersion how its tables are.
	appID         = 0x48464869
	schemaVersion = 1
	// pageSize is that of the file.
	pageSize = 4096
	// busyPatience is how long a change waits for another program that changes the file.
	busyPatience = 500
	// trimmed is how many events are removed at once.
	trimmed = 500
	// lockSuffix is that of the file by whose lock a second server finds out that it is one.
	lockSuffix = "-lock"
)

//go:embed schema.sql
var schema string

// storage keeps events in a file. It implements history.Storage.
type storage struct {
	path  string // as the user gave it
	file  string
	was   fs.FileInfo // the file, when it was opened
	keep  time.Duration
	pages int64
	lock  *sql.DB
	db    *sql.DB // one connection: SQLite itself lets no two have the file at a time
	since atomic.Int64
}

func open(ctx context.Context, path string, keep time.Duration, maxBytes int64) (*storage, error) {
	file, err := prepare(path)
	if err != nil {
		return nil, err
	}
	s := &storage{path: path, file: file, keep: keep, pages: maxBytes / pageSize}
	if err := s.open(ctx); err != nil {
		_ = s.Close()
		return nil, s.explain(err)
	}
	return s, nil
}

var errInUse = errors.New("another server keeps its history in it: each needs a file of its own")

func (s *storage) open(ctx context.Context) (err error) {
	// No lock of the system is the same everywhere. SQLite's are there anyway.
	if s.lock, err = database(s.file+lockSuffix, "locking_mode(EXCLUSIVE)", "busy_timeout(0)"); err != nil {
		return err
	}
	if _, err = s.lock.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		if isCode(err, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) {
			return errInUse
		}
		return err
	}
	busy := fmt.Sprintf("busy_timeout(%d)", busyPatience)
	if s.db, err = database(s.file, busy, "synchronous(NORMAL)"); err != nil {
		return err
	}
	if err = s.check(ctx); err != nil {
		return err
	}
	// No write-ahead log: it needs a file in memory. Where the disk hangs, a thread that
	// touches that stands still inside the program, and the garbage collector waits for it, and
	// with it all locks. Where the file is cut, the program is killed. And the log grows without
	// end while there are readers.
	for _, text := range []string{
		"PRAGMA journal_mode=TRUNCATE",
		fmt.Sprintf("PRAGMA max_page_count=%d", s.pages),
	} {
		if _, err = s.db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	if err = s.begin(ctx); err != nil {
		return err
	}
	s.was, err = os.Lstat(s.file)
	return err
}

// errReplaced: SQLite would go on with a file that nobody finds, and with its journal beside
// the file that has the name now, perhaps the history of another server.
var errReplaced = errors.New("somebody has removed or replaced it; start the server again, which makes a new one")

// isThere returns an error unless the file is at its name still.
func (s *storage) isThere() error {
	info, err := os.Lstat(s.file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(s.was, info) {
		return errReplaced
	}
	return err
}

// database returns a database with one connection, with those settings. A transaction takes the
// lock at its beginning.
func database(file string, pragmas ...string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: url.Values{"_pragma": pragmas, "mode": {"rw"}, "_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

var (
	errForeign = errors.New("another program has made it")
	errNewer   = errors.New("a newer version of Holdfast has made it")
	errDamaged = errors.New("it is damaged")
)

// check checks that the file is new, or is an undamaged history.
func (s *storage) check(ctx context.Context) error {
	var id, version, tables int64
	err := s.db.QueryRowContext(ctx, `SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id a, pragma_user_version v`).Scan(&id, &version, &tables)
	switch {
	case err != nil:
		return err
	case id == 0 && version == 0 && tables == 0:
		return nil
	case id != appID:
		return errForeign
	case version > schemaVersion:
		return errNewer
	}
	var found string
	if err := s.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", errDamaged, found)
	}
	return nil
}

// begin makes the tables, unless they are there.
func (s *storage) begin(ctx context.Context) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO kept (since) SELECT ? WHERE NOT EXISTS (SELECT * FROM kept)", time.Now().UnixMicro())
		return err
	})
}

// Close implements history.Storage.
func (s *storage) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.db, s.lock} { // the lock last
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return s.explain(errors.Join(errs...))
}

// explain says which file an error is about, and what to do if nothing else helps.
func (s *storage) explain(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case isCode(err, sqlite3.SQLITE_NOTADB), errors.Is(err, errForeign):
		return fmt.Errorf("history %s: it is not a history of Holdfast: %w; name another file. Nothing was changed", s.path, err)
	case isCode(err, sqlite3.SQLITE_CORRUPT), errors.Is(err, errDamaged):
		return fmt.Errorf("history %s: it is damaged: %w; move it away, with its -journal, and the server makes a new one. "+
			"Nothing was deleted", s.path, err)
	}
	return fmt.Errorf("history %s: %w", s.path, err)
}

// isCode reports whether SQLite has answered with one of the primary codes.
func isCode(err error, codes ...int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && slices.Contains(codes, e.Code()&0xff)
}

func micros(d time.Duration) sql.NullInt64 {
	return sql.NullInt64{Int64: d.Microseconds(), Valid: d != driver.Unknown}
}

func duration(n sql.NullInt64) time.Duration {
	if !n.Valid {
		return driver.Unknown
	}
	return time.Duration(n.Int64) * time.Microsecond
}

var _ history.Storage = (*storage)(nil)
