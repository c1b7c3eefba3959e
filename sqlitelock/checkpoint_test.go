package sqlitelock_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// bound is the largest allowed log, with the changes before it restarts.
const bound = 6 << 20

func logSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	check(t, err)
	return info.Size()
}

// writeMuch makes a change that lets the log grow fast.
func writeMuch(t *testing.T, s driver.Store, resource string) {
	t.Helper()
	r := request(resource, "a", time.Hour)
	r.Details.Comment = strings.Repeat("x", 50<<10)
	ref, err := acquire(t.Context(), s, r)
	check(t, err)
	mustRelease(t, s, ref)
}

// renew must succeed as quickly as holds with short TTLs need.
func renew(t *testing.T, s driver.Store, ref driver.HoldRef) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	rs, err := s.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		t.Fatalf("renewal: %v", err)
	}
}

// beginRead begins a transaction that reads, and leaves it open.
func beginRead(t *testing.T, db *sql.DB) {
	t.Helper()
	rawExec(t, db, "BEGIN")
	var n int
	check(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM resources").Scan(&n))
}

// mustShrink writes until the log has restarted.
func mustShrink(t *testing.T, s driver.Store, path string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); logSize(t, path) > bound; writeMuch(t, s, "r") {
		if time.Now().After(deadline) {
			t.Fatalf("without readers, the log still has %d MB", logSize(t, path)>>20)
		}
	}
}

// A reader that stays, such as a shell with an open transaction, only costs disk space:
// the log grows, and nobody takes the write lock to wait for the reader. After the reader
// has gone, the log is bounded again.
func TestReaderThatStays(t *testing.T) {
	path := newFile(t)
	var restarts atomic.Int64
	s := openOn(t, path, nil, sqlitelock.Machine{At: func(p sqlitelock.Point) {
		if p == sqlitelock.PointRestart {
			restarts.Add(1)
		}
	}})
	db := raw(t, path)
	beginRead(t, db)
	for writeMuch(t, s, "r"); logSize(t, path) <= 2*bound; {
		writeMuch(t, s, "r")
	}
	if n := restarts.Load(); n > 0 {
		t.Errorf("the write lock was taken %d times to wait for the reader", n)
	}
	rawExec(t, db, "COMMIT")
	mustShrink(t, s, path)
}

// A reader that comes when only the write lock is missing is waited for once, and so
// briefly that renewals are in time.
func TestReaderThatComesBetween(t *testing.T) {
	path := newFile(t)
	db, other := raw(t, path), open(t, path)
	var restarts atomic.Int64
	reading := make(chan struct{})
	s := openOn(t, path, nil, sqlitelock.Machine{At: func(p sqlitelock.Point) {
		if p == sqlitelock.PointRestart && restarts.Add(1) == 1 {
			writeMuch(t, other, "other") // otherwise the reader would not use the log
			beginRead(t, db)
			close(reading)
		}
	}})
	held := mustAcquire(t, s, "held", "a", time.Hour)
	for {
		writeMuch(t, s, "r")
		renew(t, s, held)
		select {
		case <-reading:
		default:
			continue
		}
		if logSize(t, path) > 2*bound {
			break
		}
	}
	if n := restarts.Load(); n != 1 {
		t.Errorf("the write lock was taken %d times to wait for the reader, want once", n)
	}
	rawExec(t, db, "COMMIT")
	mustShrink(t, s, path)
}

// A sweep that deletes nothing bounds the log, too.
func TestSweepBoundsLog(t *testing.T) {
	path := newFile(t)
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	s := openOn(t, path, nil, sqlitelock.Machine{At: func(p sqlitelock.Point) {
		if p == sqlitelock.PointPassive {
			begin()
		}
	}})
	rawExec(t, raw(t, path), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3500)
		INSERT INTO resources (resource, touched, token, listed) SELECT i || hex(zeroblob(450)), 1, 1, 1 FROM n`)
	if logSize(t, path) < bound {
		t.Fatal("the log is not large")
	}
	_, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: 200 * 365 * 24 * time.Hour}) // unlists all records, and deletes none
	check(t, err)
	select {
	case <-begun:
	case <-time.After(30 * time.Second):
		t.Error("the log is left as it is")
	}
}

// No change waits while the log is moved into the file, which takes as long as the disk
// needs.
func TestNobodyWaitsForTheDisk(t *testing.T) {
	path := newFile(t)
	slow, begun := make(chan struct{}), make(chan struct{})
	begin, restore := sync.OnceFunc(func() { close(begun) }), sync.OnceFunc(func() { close(slow) })
	s := openOn(t, path, nil, sqlitelock.Machine{At: func(p sqlitelock.Point) {
		if p == sqlitelock.PointPassive {
			begin()
			select {
			case <-slow:
			case <-time.After(20 * time.Second):
				t.Error("changes waited for the disk")
				restore()
			}
		}
	}})
	held := mustAcquire(t, s, "held", "a", time.Hour)
	for at := false; !at; {
		writeMuch(t, s, "r")
		select {
		case <-begun:
			at = true
		default:
		}
	}
	renew(t, s, held)
	for logSize(t, path) <= 2*bound {
		writeMuch(t, s, "r")
	}
	renew(t, s, held)
	restore()
	mustShrink(t, s, path)
}
