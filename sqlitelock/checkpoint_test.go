package sqlitelock_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sqlitelock"
)

// A reader that stays, such as a shell with an open transaction, costs disk and
// nothing else: the log grows, no change waits for the reader, and few look whether
// it has gone. Once it has, the log is bounded again.
func TestReaderThatStays(t *testing.T) {
	const step = 8 << 20
	path := newFile(t)
	var passive, restart atomic.Int64
	s := openOn(t, path, nil, sqlitelock.Machine{At: func(p sqlitelock.Point) {
		switch p {
		case sqlitelock.PointPassive:
			passive.Add(1)
		case sqlitelock.PointRestart:
			restart.Add(1)
		}
	}})
	size := func() int64 {
		info, err := os.Stat(path + "-wal")
		check(t, err)
		return info.Size()
	}
	change := func() {
		r := request("r", "a", time.Hour)
		r.Details.Comment = strings.Repeat("x", 50<<10) // so that the log grows fast
		ref, err := acquire(t.Context(), s, r)
		check(t, err)
		mustRelease(t, s, ref)
	}

	db := raw(t, path)
	rawExec(t, db, "BEGIN")
	var n int
	check(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM resources").Scan(&n))
	change()
	for size() < 2*step {
		change()
	}
	// One when the log is large, and a few soon after that find the reader still there.
	if n := passive.Load(); n < 1 || n > 5 {
		t.Errorf("%d checkpoints were tried while the reader stayed, want 1 to 5", n)
	}
	if n := restart.Load(); n > 1 {
		t.Errorf("%d changes took the write lock to wait for the reader, want 1 at most", n)
	}

	rawExec(t, db, "COMMIT")
	for deadline := time.Now().Add(time.Minute); size() > step; change() {
		if time.Now().After(deadline) {
			t.Fatalf("the reader has gone, and the log still has %d MB", size()>>20)
		}
	}
}
