//go:build unix

package sqlitelock_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// childGlance opens the file without the store, reads it, and closes it again, like a
// person with a SQLite shell.
func childGlance(args []string, _ *bufio.Scanner, _ io.Writer) error {
	db, err := rawOpen(args[0])
	if err != nil {
		return err
	}
	var n int
	err = db.QueryRowContext(context.Background(), "SELECT count(*) FROM resources").Scan(&n)
	return errors.Join(err, db.Close())
}

func init() { children["glance"] = childGlance }

func glance(t *testing.T, path string) {
	t.Helper()
	start(t, "glance", path).end()
}

// A store whose file was replaced grants nothing and keeps nothing. It does not harm the
// new file, even when it is closed.
func TestAnotherFile(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, path string)
		says   string
	}{
		"deleted": {func(t *testing.T, path string) {
			for _, suffix := range []string{"", "-wal", "-shm"} {
				check(t, os.Remove(path+suffix))
			}
		}, "deleted, moved or replaced"},
		"moved": {func(t *testing.T, path string) { check(t, os.Rename(path, path+".away")) }, "deleted, moved or replaced"},
		"moved, and a link left": {func(t *testing.T, path string) { // through which other programs find another log
			check(t, os.Rename(path, path+".away"))
			check(t, os.Symlink(path+".away", path))
		}, "deleted, moved or replaced"},
		"replaced": {func(t *testing.T, path string) {
			other := newFile(t)
			s, err := sqlitelock.Open(t.Context(), other, nil)
			check(t, err)
			check(t, s.Close())
			check(t, os.Rename(other, path))
			check(t, os.Remove(path+"-wal"))
			check(t, os.Remove(path+"-shm"))
		}, "deleted, moved or replaced"},
		"log deleted":           {func(t *testing.T, path string) { check(t, os.Remove(path+"-wal")) }, "(-wal) was deleted"},
		"shared memory deleted": {func(t *testing.T, path string) { check(t, os.Remove(path+"-shm")) }, "(-shm) was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			path := newFile(t)
			s, err := sqlitelock.Open(t.Context(), path, nil)
			check(t, err)
			ref := mustAcquire(t, s, "r", "a", time.Hour)
			c.change(t, path)
			is := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), c.says) ||
					strings.Count(err.Error(), path) != 1 {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err = acquire(t.Context(), s, request("new", "a", time.Hour))
			is("acquire", err)
			rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
			check(t, err)
			is("renewal", rs[0].Err)
			is("release", release(t.Context(), s, ref))
			for _, err := range s.List(t.Context(), driver.Filter{}) {
				is("list", err)
			}
			if strings.Contains(name, " ") { // then this process cannot open the file again
				check(t, s.Close())
				return
			}
			other := open(t, path)
			after := mustAcquire(t, other, "new", "b", time.Hour)
			check(t, s.Close())
			// The present file and its log are unchanged.
			if h, held := holder(t, other, "new"); !held || h.Ref() != after {
				t.Errorf("the other store has %+v, held: %v", h, held)
			}
			mustRelease(t, other, after)
			glance(t, path)
		})
	}
}

// A file that is replaced during Open is not mistaken for the file that now has its name:
// nobody would ever notice the difference.
func TestReplacedAsOpened(t *testing.T) {
	for name, made := range map[string]bool{"new file": false, "file of before the boot": true} {
		t.Run(name, func(t *testing.T) {
			path := newFile(t)
			if made {
				s, err := sqlitelock.Open(t.Context(), path, nil)
				check(t, err)
				check(t, s.Close())
			}
			var other *child
			s, err := sqlitelock.OpenOn(t.Context(), path, nil, sqlitelock.Machine{
				Boot: func() (string, error) { return "another", nil }, // so Open must change the file
				At: func(p sqlitelock.Point) {
					if p != sqlitelock.PointBegin || other != nil {
						return
					}
					for _, suffix := range []string{"", "-wal", "-shm"} {
						if err := os.Remove(path + suffix); !errors.Is(err, fs.ErrNotExist) {
							check(t, err)
						}
					}
					other = start(t, "release", path)
					other.hear("held")
				},
			})
			defer other.end()
			if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "moved or replaced") {
				t.Errorf("opened: %v", err)
			}
			if err != nil {
				s, err = sqlitelock.Open(t.Context(), path, nil)
				check(t, err)
			}
			if _, err := acquire(t.Context(), s, request("r", "b", time.Hour)); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("acquired a lock that another process holds: %v", err)
			}
			check(t, s.Close())
		})
	}
}

// A symbolic link that leads to another file has the same effect as a replaced file.
func TestLinkToAnotherFile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "current")
	path := filepath.Join(link, "locks.db")
	leadTo := func(folder string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); !errors.Is(err, fs.ErrExist) {
			check(t, err)
		}
		check(t, os.Symlink(folder, link+".new"))
		check(t, os.Rename(link+".new", link))
	}
	leadTo("one")
	s := open(t, path)
	ref := mustAcquire(t, s, "r", "a", time.Hour)
	leadTo("two")
	mustAcquire(t, open(t, path), "r", "b", time.Hour) // in the other file
	is := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "links lead") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := acquire(t.Context(), s, request("new", "a", time.Hour))
	is("acquire", err)
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	check(t, err)
	is("renewal", rs[0].Err)
	for _, err := range s.List(t.Context(), driver.Filter{}) {
		is("list", err)
	}
	leadTo("one")
	mustRelease(t, s, ref)
}

// The content of a deleted log does not get into the file, which may have another log by
// now: neither with the refused change, nor when the store is closed.
func TestLogOfAnother(t *testing.T) {
	path := newFile(t)
	b, err := sqlitelock.OpenBackend(t.Context(), path, nil, sqlitelock.Machine{})
	check(t, err)
	s := base.New(b)
	const largest = 4 << 20 // the largest size of a log that has restarted
	for logSize(t, path) <= largest {
		writeMuch(t, s, "r")
	}
	// This opens a connection for checkpoints.
	for deadline := time.Now().Add(time.Minute); logSize(t, path) > largest; writeMuch(t, s, "r") {
		if time.Now().After(deadline) {
			t.Fatal("the log does not restart")
		}
	}
	for i := 0; logSize(t, path) <= largest; i++ {
		mustAcquire(t, s, fmt.Sprint(i), "a", time.Hour)
	}
	for _, err := range s.List(t.Context(), driver.Filter{}) { // here the store sees that the log is large
		check(t, err)
		break
	}
	b.Settle() // a checkpoint that continues moves committed changes
	check(t, os.Remove(path+"-wal"))
	check(t, os.Remove(path+"-shm"))
	before, err := os.ReadFile(path)
	check(t, err)
	if _, err := acquire(t.Context(), s, request("new", "a", time.Hour)); !errors.Is(err, driver.ErrUnusable) {
		t.Errorf("acquire: %v", err)
	}
	check(t, s.Close())
	after, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
	// This process can no longer see the locks of others there.
	if s, err := sqlitelock.Open(t.Context(), path, nil); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "restart") {
		t.Errorf("opened %v again: %v", s, err)
	}
}

// Other programs may open the file, read it and change its permissions: the store
// continues.
func TestSameFile(t *testing.T) {
	path := newFile(t)
	s := open(t, path)
	ref := mustAcquire(t, s, "r", "a", time.Hour)
	other, err := sqlitelock.Open(t.Context(), path, nil)
	check(t, err)
	check(t, other.Close())
	glance(t, path)
	check(t, os.Chmod(path, 0o640))
	mustRelease(t, s, ref)
	mustAcquire(t, s, "r", "b", time.Hour)
}
