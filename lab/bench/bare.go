package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"

	"modernc.org/sqlite"
)

// bare is the least cost of a lock in SQLite: twice BEGIN IMMEDIATE, SELECT, UPSERT, COMMIT,
// with prepared statements on one connection. It bypasses database/sql, as sqlitelock does, and
// has the same settings, WAL and synchronous=normal. The busy time-out is SQLite's own way to
// wait for other processes.
type bare struct {
	conn                        driver.Conn
	begin, look, upsert, commit driver.Stmt
	resource                    string
	texts                       [2]driver.Value // of the row, alternating
	touched                     int64
	row                         []driver.Value
}

// openBare creates a table like that of sqlitelock, without index and trigger. A row contains
// text while it is locked, and none afterwards, like the rows of sqlitelock.
func openBare(ctx context.Context, file, resource, text string) (_ *bare, err error) {
	name := url.URL{Scheme: "file", Path: file, RawQuery: url.Values{
		"_journal_mode": {"wal"},
		"_synchronous":  {"normal"},
		"_busy_timeout": {"10000"},
	}.Encode()}
	conn, err := new(sqlite.Driver).Open(name.String())
	if err != nil {
		return nil, err
	}
	b := &bare{conn: conn, resource: resource, texts: [2]driver.Value{text, nil}, row: make([]driver.Value, 3)}
	_, err = conn.(driver.ExecerContext).ExecContext(ctx, `CREATE TABLE IF NOT EXISTS resources (
		resource TEXT NOT NULL PRIMARY KEY, touched INTEGER NOT NULL, token INTEGER NOT NULL,
		freed INTEGER NOT NULL, holds TEXT) STRICT, WITHOUT ROWID`, nil)
	for _, s := range []struct {
		stmt *driver.Stmt
		text string
	}{
		{&b.begin, `BEGIN IMMEDIATE`},
		{&b.look, `SELECT touched, token, holds FROM resources WHERE resource = ?`},
		{&b.upsert, `INSERT INTO resources (resource, touched, token, freed, holds) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET touched = excluded.touched, token = excluded.token,
			freed = excluded.freed, holds = excluded.holds`},
		{&b.commit, `COMMIT`},
	} {
		if err == nil {
			*s.stmt, err = conn.Prepare(s.text)
		}
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return b, nil
}

// lockAndUnlock runs the two transactions.
func (b *bare) lockAndUnlock(ctx context.Context) error {
	for _, text := range b.texts {
		if err := b.transact(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func (b *bare) transact(ctx context.Context, text driver.Value) error {
	if err := execute(ctx, b.begin); err != nil {
		return err
	}
	rows, err := b.look.(driver.StmtQueryContext).QueryContext(ctx, numbered(b.resource))
	if err != nil {
		return err
	}
	if err := rows.Next(b.row); err != nil && !errors.Is(err, io.EOF) {
		return errors.Join(err, rows.Close())
	}
	if err := rows.Close(); err != nil {
		return err
	}
	b.touched++
	// The number is as large as the microseconds that sqlitelock writes.
	n := int64(1)<<50 + b.touched
	if err := execute(ctx, b.upsert, b.resource, n, n, n, text); err != nil {
		return err
	}
	return execute(ctx, b.commit)
}

func execute(ctx context.Context, s driver.Stmt, values ...driver.Value) error {
	_, err := s.(driver.StmtExecContext).ExecContext(ctx, numbered(values...))
	return err
}

func numbered(values ...driver.Value) []driver.NamedValue {
	args := make([]driver.NamedValue, len(values))
	for i, v := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args
}

func (b *bare) close() error {
	return errors.Join(b.begin.Close(), b.look.Close(), b.upsert.Close(), b.commit.Close(), b.conn.Close())
}
