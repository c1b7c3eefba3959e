package sqlitelock_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// What an acquire and a release cost, to be read beside BenchmarkTransactions.
func BenchmarkAcquireRelease(b *testing.B) {
	s := open(b, newFile(b))
	ctx := context.Background()
	q := driver.AcquireRequest{
		Resource: "resource", LockID: "0123456789abcdef01234567", TTL: time.Minute,
		Details: driver.Details{Owner: "somebody", Host: "machine-1"},
	}
	b.ReportAllocs()
	for b.Loop() {
		q.HoldID = driver.NewHoldID()
		ref, err := acquire(ctx, s, q)
		if err == nil {
			err = release(ctx, s, ref)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// The least that two changes which look before they write can cost in SQLite:
// twice BEGIN IMMEDIATE, SELECT, UPSERT, COMMIT, with rows of the same size.
func BenchmarkTransactions(b *testing.B) {
	db := raw(b, newFile(b))
	for _, pragma := range []string{"PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL"} {
		rawExec(b, db, pragma)
	}
	rawExec(b, db, "CREATE TABLE rows (k TEXT PRIMARY KEY, version INTEGER, token INTEGER, v TEXT) STRICT, WITHOUT ROWID")
	ctx := context.Background()
	statement := func(text string) *sql.Stmt {
		s, err := db.PrepareContext(ctx, text)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		return s
	}
	begin, commit := statement("BEGIN IMMEDIATE"), statement("COMMIT")
	look := statement("SELECT version, token, v FROM rows WHERE k = ?")
	upsert := statement("INSERT INTO rows VALUES (?1, ?2, ?2, ?3) " +
		"ON CONFLICT DO UPDATE SET version = ?2, token = ?2, v = ?3")
	held := sql.NullString{Valid: true, String: `[{"lockId":"0123456789abcdef01234567","holdId":"0123456789abcdef01234567",` +
		`"mode":"exclusive","token":1700000000000000,"owner":"somebody","host":"machine-1",` +
		`"created":1700000000000000,"end":1700000060000000}]`}
	exec := func(s *sql.Stmt, args ...any) {
		if _, err := s.ExecContext(ctx, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(upsert, "resource", 0, nil)
	b.ReportAllocs()
	for b.Loop() {
		for _, v := range []sql.NullString{held, {}} {
			exec(begin)
			var version, token int64
			var old sql.NullString
			if err := look.QueryRowContext(ctx, "resource").Scan(&version, &token, &old); err != nil {
				b.Fatal(err)
			}
			exec(upsert, "resource", version+1, v)
			exec(commit)
		}
	}
}

func openAndClose(path string) error {
	ctx := context.Background()
	s, err := sqlitelock.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	ref, err := acquire(ctx, s, request("r", "a", time.Minute))
	if err == nil {
		err = release(ctx, s, ref)
	}
	return errors.Join(err, s.Close())
}

// What the start of a program costs.
func BenchmarkOpen(b *testing.B) {
	path := newFile(b)
	open(b, path) // else each close would also move the log into the file
	for b.Loop() {
		if err := openAndClose(path); err != nil {
			b.Fatal(err)
		}
	}
}

// What the start and end of the only program cost: its close is a checkpoint.
func BenchmarkOpenAlone(b *testing.B) {
	path := newFile(b)
	for b.Loop() {
		if err := openAndClose(path); err != nil {
			b.Fatal(err)
		}
	}
}
