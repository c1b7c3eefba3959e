package sqlitelock_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

func TestOpenMakesWhatIsMissing(t *testing.T) {
	for _, name := range []string{
		"locks.db", "a/b/locks.db", "with space/50%25 of #1?.db", "ünïcode/🔒.db", ":memory:", "file:x.db",
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.ContainsAny(name, ":?") {
				t.Skip("no such names on Windows")
			}
			path := filepath.Join(t.TempDir(), "top", filepath.FromSlash(name))
			s := open(t, path)
			mustAcquire(t, s, "r", "a", time.Minute)
			if runtime.GOOS == "windows" {
				return
			}
			for p, want := range map[string]fs.FileMode{
				path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600,
				filepath.Dir(path): fs.ModeDir | 0o700,
			} {
				info, err := os.Stat(p)
				if err != nil {
					t.Fatal(err)
				}
				if info.Mode() != want {
					t.Errorf("%s has mode %v, want %v", p, info.Mode(), want)
				}
			}
		})
	}
}

// With NoCreate, Open does not create a file or folder, and uses an existing one.
func TestNoCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	path := filepath.Join(dir, "locks.db")
	opts := &sqlitelock.Options{NoCreate: true}
	_, err := sqlitelock.Open(t.Context(), path, opts)
	refused(t, err, path, "does not exist")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder: %v", err)
	}
	check(t, open(t, path).Close())
	mustAcquire(t, openOn(t, path, opts, sqlitelock.Machine{}), "r", "a", time.Minute)
}

// A folder that only its owner may enter could not share the file, so Open creates none.
func TestModeMakesNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "locks.db")
	_, err := sqlitelock.Open(t.Context(), path, &sqlitelock.Options{Mode: 0o660})
	refused(t, err, path, "has no folder")
	_, err = sqlitelock.Open(t.Context(), path, &sqlitelock.Options{Mode: 0o640})
	if !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("mode 0640: %v", err)
	}
	check(t, openOn(t, path, &sqlitelock.Options{Mode: 0o600}, sqlitelock.Machine{}).Close())
}

// Open refuses a file that it cannot use. The error names the file, which stays as it is.
func TestOpenRefuses(t *testing.T) {
	made := func(t *testing.T, path string) {
		s, err := sqlitelock.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		make  func(t *testing.T, path string)
		says  string
		notIn string // a system on which this is impossible
	}{
		{"a directory", func(t *testing.T, path string) {
			check(t, os.Mkdir(path, 0o700))
		}, "is a directory", ""},
		{"text", func(t *testing.T, path string) {
			check(t, os.WriteFile(path, bytes.Repeat([]byte("a shopping list\n"), 400), 0o600))
		}, "is not a SQLite database", ""},
		{"a few bytes", func(t *testing.T, path string) {
			check(t, os.WriteFile(path, []byte("x"), 0o600))
		}, "is not a SQLite database", ""},
		{"somebody else's database", func(t *testing.T, path string) {
			rawExec(t, raw(t, path), "CREATE TABLE accounts (name TEXT)")
		}, "not made by Holdfast", ""},
		{"somebody else's empty database", func(t *testing.T, path string) {
			rawExec(t, raw(t, path), "PRAGMA application_id = 7")
		}, "not made by Holdfast", ""},
		{"a newer schema", func(t *testing.T, path string) {
			made(t, path)
			rawExec(t, raw(t, path), "PRAGMA user_version = 99")
		}, "schema 99", ""},
		{"an older schema", func(t *testing.T, path string) {
			made(t, path)
			rawExec(t, raw(t, path), "PRAGMA user_version = 1")
		}, "schema 1", ""},
		{"no clock", func(t *testing.T, path string) {
			made(t, path)
			rawExec(t, raw(t, path), "DELETE FROM meta")
		}, "table meta", ""},
		{"a clock beyond all tokens", func(t *testing.T, path string) {
			made(t, path)
			rawExec(t, raw(t, path), "UPDATE meta SET floor = ?", int64(1)<<53)
		}, "clock", ""},
		{"damaged pages", func(t *testing.T, path string) {
			made(t, path)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			check(t, err)
			defer f.Close()
			_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, 3900), 100)
			check(t, err)
		}, "is damaged", ""},
		{"a pipe", makePipe, "is not a regular file", "windows"},
		{"a link to nothing", func(t *testing.T, path string) {
			check(t, os.Symlink(path+".missing", path))
		}, "symbolic link", "windows"},
		{"a hard link", func(t *testing.T, path string) {
			made(t, path)
			check(t, os.Link(path, path+".other"))
		}, "2 names", "windows"},
		{"a file for a folder", func(t *testing.T, path string) {
			check(t, os.WriteFile(filepath.Dir(path), nil, 0o600))
		}, "folder", "windows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.notIn == runtime.GOOS {
				t.Skip("not on " + runtime.GOOS)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "locks.db")
			if c.name == "a file for a folder" {
				path = filepath.Join(dir, "folder", "locks.db")
			}
			c.make(t, path)
			before := contents(t, path)
			s, err := sqlitelock.Open(t.Context(), path, nil)
			if err == nil {
				_ = s.Close()
				t.Fatal("it was opened")
			}
			refused(t, err, path, c.says)
			if after := contents(t, path); !bytes.Equal(before, after) {
				t.Errorf("it was changed")
			}
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, path string) []byte {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	data, err := os.ReadFile(path)
	check(t, err)
	return data
}

// refused checks that an error names the file once and contains says.
func refused(t *testing.T, err error, path, says string) {
	t.Helper()
	t.Log(err)
	if !errors.Is(err, driver.ErrUnusable) {
		t.Errorf("it is not ErrUnusable: %v", err)
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("%q does not say %q", err, says)
	}
	if n := strings.Count(err.Error(), path); n != 1 {
		t.Errorf("%q names the file %d times", err, n)
	}
}

func TestOpenEmptyFile(t *testing.T) {
	path := newFile(t)
	check(t, os.WriteFile(path, nil, 0o600))
	mustAcquire(t, open(t, path), "r", "a", time.Minute)
}

func TestOpenThroughLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	check(t, os.Symlink("real", filepath.Join(dir, "link")))
	one := open(t, filepath.Join(dir, "link", "locks.db"))
	mustAcquire(t, one, "r", "a", time.Minute)
	other := open(t, filepath.Join(dir, "real", "locks.db"))
	if _, err := acquire(t.Context(), other, request("r", "b", time.Minute)); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("through another name: %v, want held", err)
	}
}

// Open refuses a file on a network file system before it creates anything there, even
// through a link. The error names the file. An option allows it.
func TestOpenNetworkFS(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need rights on Windows")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	far := filepath.Join(dir, "far")
	check(t, os.Mkdir(far, 0o700))
	check(t, os.Symlink(far, filepath.Join(dir, "link")))
	m := sqlitelock.Machine{NetworkFS: func(path string) string {
		if strings.HasPrefix(path, far) {
			return "nfs4"
		}
		return ""
	}}
	for _, path := range []string{filepath.Join(far, "a", "locks.db"), filepath.Join(dir, "link", "a", "locks.db")} {
		s, err := sqlitelock.OpenOn(t.Context(), path, nil, m)
		if err == nil {
			_ = s.Close()
			t.Fatal("it was opened")
		}
		refused(t, err, path, "nfs4")
		refused(t, err, path, "network-fs=allow")
	}
	if entries, err := os.ReadDir(far); err != nil || len(entries) > 0 {
		t.Errorf("created all the same: %v %v", entries, err)
	}
	openOn(t, filepath.Join(far, "locks.db"), &sqlitelock.Options{AllowNetworkFS: true}, m)
	openOn(t, filepath.Join(dir, "near.db"), nil, m)
}

func TestOpenDeadContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := newFile(t)
	if _, err := sqlitelock.Open(ctx, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was created: %v", err)
	}
}

// If another program turns WAL mode off, that must not slow the store down permanently.
func TestOpenReturnsToWAL(t *testing.T) {
	path := newFile(t)
	s, err := sqlitelock.Open(t.Context(), path, nil)
	check(t, err)
	check(t, s.Close())
	db := raw(t, path)
	rawExec(t, db, "PRAGMA journal_mode = DELETE")
	check(t, db.Close())
	open(t, path)
	var mode string
	check(t, raw(t, path).QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
	if mode != "wal" {
		t.Errorf("journal mode %q", mode)
	}
}

// Processes that create the file at the same time all use the same file.
func TestOpenRaceOfProcesses(t *testing.T) {
	const rounds, processes = 5, 6
	for range rounds {
		path := filepath.Join(t.TempDir(), "new", "locks.db")
		var cs []*child
		for range processes {
			c := start(t, "open", path)
			c.hear("ready")
			cs = append(cs, c)
		}
		for _, c := range cs {
			c.say("go")
		}
		var tokens []uint64
		for _, c := range cs {
			if !c.out.Scan() {
				t.Fatal("a child got no lock")
			}
			token, err := strconv.ParseUint(c.out.Text(), 10, 64)
			check(t, err)
			tokens = append(tokens, token)
			c.end()
		}
		slices.Sort(tokens)
		if n := len(slices.Compact(tokens)); n != processes {
			t.Errorf("%d different tokens for %d processes", n, processes)
		}
	}
}

func TestClosed(t *testing.T) {
	s, err := sqlitelock.Open(t.Context(), newFile(t), nil)
	check(t, err)
	ch, err := s.(driver.Watcher).Watch(t.Context(), "r")
	check(t, err)
	check(t, s.Close())
	check(t, s.Close())
	if _, open := <-ch; open {
		t.Error("a signal instead of a closed channel")
	}
	if _, err := acquire(t.Context(), s, request("r", "a", time.Minute)); err == nil || errors.Is(err, driver.ErrHeld) {
		t.Errorf("acquire on a closed store: %v", err)
	}
	if _, err := s.(driver.Watcher).Watch(t.Context(), "r"); err == nil {
		t.Error("watch on a closed store: no error")
	}
}
