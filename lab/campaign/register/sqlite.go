package register

import (
	"context"
	"database/sql"
	"fmt"

	_ "modernc.org/sqlite" // registers the driver
)

// digits formats a token so that texts compare like numbers.
func digits(token uint64) string { return fmt.Sprintf("%020d", token) }

type sqliteRegister struct{ db *sql.DB }

// openSQLite opens the register in a file.
func openSQLite(path string) (Register, error) {
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	return sqliteRegister{db}, nil
}

// PrepareSQLite creates the table.
func PrepareSQLite(ctx context.Context, path string, resources []string) error {
	r, err := openSQLite(path)
	if err != nil {
		return err
	}
	defer r.Close()
	db := r.(sqliteRegister).db
	if _, err := db.ExecContext(ctx, "CREATE TABLE registers (resource TEXT PRIMARY KEY, value TEXT, fence TEXT NOT NULL DEFAULT '')"); err != nil {
		return err
	}
	for _, resource := range resources {
		if _, err := db.ExecContext(ctx, "INSERT INTO registers (resource) VALUES (?)", resource); err != nil {
			return err
		}
	}
	return nil
}

func (r sqliteRegister) Write(ctx context.Context, resource string, token uint64, value string, fenced bool) error {
	result, err := r.db.ExecContext(ctx, "UPDATE registers SET value = ?1, fence = ?2 WHERE resource = ?3 AND (fence <= ?2 OR NOT ?4)",
		value, digits(token), resource, fenced)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return ErrStale
}

func (r sqliteRegister) Close() error { return r.db.Close() }
