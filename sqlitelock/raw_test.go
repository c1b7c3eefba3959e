package sqlitelock_test

import (
	"database/sql"
	"net/url"
	"testing"
)

// rawOpen opens the file without the store, on one connection, like a person with a
// SQLite shell.
func rawOpen(path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_busy_timeout=5000"}
	db, err := sql.Open("sqlite", u.String())
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := rawOpen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func rawExec(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
