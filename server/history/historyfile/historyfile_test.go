package historyfile_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/history/historyfile"
)

func open(t *testing.T, path string, opts *historyfile.Options) *history.Log {
	t.Helper()
	log, err := historyfile.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// note notes n grants of holds of the resource, and waits until they are written.
func note(t *testing.T, log *history.Log, resource string, n int, details driver.Details) {
	t.Helper()
	for wanted := log.State().Noted; n > 0; {
		some := min(n, 4000)
		for range some {
			log.Granted(driver.Status{Resource: resource, HoldID: driver.NewHoldID(), Token: 7, Left: time.Hour, Details: details})
		}
		n -= some
		wanted += uint64(some)
		until(t, log, "all is written", func(s history.State) bool { return s.Noted >= wanted })
	}
}

// until waits for a state of the log.
func until(t *testing.T, log *history.Log, what string, is func(history.State) bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(log.State()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not until %s: %+v", what, log.State())
		}
	}
}

func fails(s history.State) bool { return s.Err != nil }

func events(t *testing.T, log *history.Log, resource string) []history.Event {
	t.Helper()
	all, err := log.Events(t.Context(), history.Query{Resource: resource, Limit: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// All of an event is there again after the file was closed.
func TestKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a folder with # and ?", "history.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	log := open(t, path, nil)
	id := driver.NewHoldID()
	details := driver.Details{Owner: "ada", Host: "engine", Comment: "it's \"for\" \x00 tests"}
	log.Granted(driver.Status{Resource: "r", HoldID: id, Token: 1 << 40, Mode: driver.Shared, Limit: 3, Left: time.Hour, Details: details})
	log.Forced(driver.HoldRef{Resource: "r", HoldID: id, Token: 1 << 40}, time.Now(), "ops", "it hung")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	all := events(t, open(t, path, nil), "r")
	if len(all) != 2 {
		t.Fatalf("%d events", len(all))
	}
	forced, granted := all[0], all[1]
	if granted.Kind != history.Granted || granted.Mode != driver.Shared || granted.Limit != 3 || granted.Token != 1<<40 || granted.Details != details ||
		granted.Held != 0 || granted.RenewedAgo != driver.Unknown || time.Since(granted.At) > time.Minute || len(granted.Ref) != 8 {
		t.Errorf("granted: %+v", granted)
	}
	if forced.Kind != history.Forced || forced.Caller != "ops" || forced.Reason != "it hung" || forced.Number <= granted.Number || forced.Details != details {
		t.Errorf("forced: %+v", forced)
	}
}

// The oldest go first when the file is as large as it may get.
func TestIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("thorough: it takes minutes with the race detector")
	}
	path := filepath.Join(t.TempDir(), "history.db")
	const most = 32 << 20
	log := open(t, path, &historyfile.Options{MaxBytes: most})
	began := log.State().Since
	long := strings.Repeat("x", 1000)
	for range 5 {
		note(t, log, long, 2000, driver.Details{Owner: long[:200], Host: long[:200], Comment: long})
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > most {
			t.Fatalf("the file has %d bytes", info.Size())
		}
	}
	journal, err := os.Stat(path + "-journal")
	if err != nil || journal.Size() > 0 {
		t.Errorf("the journal is %v, error %v", journal, err)
	}
	all := events(t, log, long)
	if n := len(all); n < 1000 || n > 9000 {
		t.Errorf("%d events are left of 10000", n)
	}
	if since := log.State().Since; !since.After(began) || since.After(all[len(all)-1].At) {
		t.Errorf("it says that it begins at %v, and its first event is of %v", since, all[len(all)-1].At)
	}
	if state := log.State(); state.Err != nil || state.Dropped != 0 {
		t.Errorf("state %+v", state)
	}
}

// A file that is mapped into memory can stop or kill the whole program: see open.
func TestMapsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path, nil)
	note(t, log, "r", 1, driver.Details{})
	events(t, log, "r")
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", suffix, err)
		}
	}
}

// A reader that stands still makes the file no larger. What is not written is counted.
func TestReaderStandsStill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path, nil)
	note(t, log, "r", 1, driver.Details{})
	reader, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	tx, err := reader.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM events").Scan(&n); err != nil || n != 1 {
		t.Fatalf("%d events, error %v", n, err)
	}
	for i := range 20_000 {
		log.Granted(driver.Status{Resource: strings.Repeat("x", 500), HoldID: driver.NewHoldID(), Token: uint64(i + 1)})
	}
	if s := log.State(); s.Dropped < 5000 {
		t.Errorf("state %+v", s)
	}
	size := int64(0)
	for _, suffix := range []string{"", "-journal"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 32<<20 {
		t.Errorf("the file and its journal have %d bytes", size)
	}
}

func TestKeepsForSomeTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path, &historyfile.Options{Keep: time.Nanosecond})
	note(t, log, "r", 2000, driver.Details{})
	note(t, log, "r", 1, driver.Details{})
	if n := len(events(t, log, "r")); n > 1000 {
		t.Errorf("%d events are left", n)
	}
}

func TestPrivate(t *testing.T) {
	old := umask(0)
	defer umask(old)
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path, nil)
	note(t, log, "r", 1, driver.Details{})
	for _, suffix := range []string{"", "-journal", "-lock"} {
		if info, err := os.Stat(path + suffix); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, error %v", suffix, info, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-lock"} {
		for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666} {
			if err := os.Chmod(path+suffix, mode); err != nil {
				t.Fatal(err)
			}
			wantRefused(t, path, "chmod 600")
		}
		if err := os.Chmod(path+suffix, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, path, nil)
}

func wantRefused(t *testing.T, path, text string) {
	t.Helper()
	log, err := historyfile.Open(t.Context(), path, nil)
	if err == nil {
		_ = log.Close()
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), path) {
		t.Errorf("the error does not say %q or which file: %v", text, err)
	}
}

func TestOneServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path, nil)
	wantRefused(t, path, "each needs a file of its own")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, filepath.Join(link, "history.db"), "each needs a file of its own")
	note(t, log, "r", 1, driver.Details{}) // the first one goes on
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path, nil)
}

// Nobody would find what is written into a file without a name.
func TestRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	for name, remove := range map[string]func() error{
		"removed":  func() error { return os.Remove(path) },
		"moved":    func() error { return os.Rename(path, path+"-old") },
		"replaced": func() error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			log := open(t, path, nil)
			note(t, log, "r", 1, driver.Details{})
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			log.Granted(driver.Status{Resource: "r", HoldID: driver.NewHoldID(), Token: 8, Left: time.Hour})
			until(t, log, "it notices", fails)
			if err := log.Close(); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "removed or replaced") {
				t.Errorf("error %v", err)
			}
			if s := log.State(); s.Dropped != 1 {
				t.Errorf("state %+v", s)
			}
		})
	}
	open(t, path, nil) // an empty file is a new one
}

// Without a name, all resources are meant.
func TestAllResources(t *testing.T) {
	log := open(t, filepath.Join(t.TempDir(), "history.db"), nil)
	for _, resource := range []string{"a", "b", "c"} {
		note(t, log, resource, 2, driver.Details{})
	}
	first, err := log.Events(t.Context(), history.Query{Limit: 4})
	if err != nil || len(first) != 4 || first[0].Resource != "c" || first[3].Resource != "b" {
		t.Fatalf("first: %+v, %v", first, err)
	}
	rest, err := log.Events(t.Context(), history.Query{Before: first[3].Number})
	if err != nil || len(rest) != 2 || rest[0].Resource != "a" || rest[1].Resource != "a" {
		t.Errorf("rest: %+v, %v", rest, err)
	}
	if late, err := log.Events(t.Context(), history.Query{Since: time.Now().Add(time.Hour)}); err != nil || len(late) != 0 {
		t.Errorf("later: %+v, %v", late, err)
	}
}

// By another name of the file, a server would find neither its lock nor its journal.
func TestHardLink(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "history.db"), filepath.Join(t.TempDir(), "other.db")
	log := open(t, path, nil)
	note(t, log, "r", 1, driver.Details{})
	if err := os.Link(path, other); err != nil {
		t.Skip("no hard links here:", err)
	}
	wantRefused(t, other, "hard links")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, "hard links")
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	open(t, path, nil)
}

func TestRefuses(t *testing.T) {
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	write := func(name string, data []byte) string {
		if err := os.WriteFile(path(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	wantRefused(t, write("text", []byte(strings.Repeat("this is a text\n", 1000))), "not a history of Holdfast")
	wantRefused(t, folder, "not a regular file")
	wantRefused(t, path("none/history.db"), "folder")
	if err := os.Symlink(path("text"), path("link")); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path("link"), "not a regular file")

	run(t, path("foreign"), "CREATE TABLE t (x)")
	if err := os.Chmod(path("foreign"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path("foreign"), "another program has made it")

	open(t, path("newer"), nil).Close()
	run(t, path("newer"), "PRAGMA user_version = 99")
	wantRefused(t, path("newer"), "newer version")

	log := open(t, path("damaged"), nil)
	note(t, log, "r", 1000, driver.Details{})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path("damaged"))
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"cut":   func(d []byte) []byte { return d[:len(d)/2] },
		"zeros": func(d []byte) []byte { clear(d[8192:40960]); return d },
	} {
		file := write("damaged-"+name, damage(append([]byte(nil), data...)))
		before, _ := os.ReadFile(file)
		wantRefused(t, file, "move it away")
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	for _, o := range []historyfile.Options{{Keep: -1}, {MaxBytes: 1 << 20}} {
		if _, err := historyfile.Open(t.Context(), path("new"), &o); err == nil {
			t.Errorf("opened with %+v", o)
		}
	}
	if _, err := historyfile.Open(t.Context(), "", nil); err == nil {
		t.Error("opened without a name")
	}
}

// run runs a statement on the file.
func run(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// A file that another program locks, or a disk that does not answer, delays nobody.
func TestLockedByAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path, nil)
	note(t, log, "r", 1, driver.Details{})
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		log.Granted(driver.Status{Resource: fmt.Sprint(i), HoldID: driver.NewHoldID(), Token: 7, Left: time.Hour})
	}
	until(t, log, "it notices", fails)
	if _, err := log.Events(t.Context(), history.Query{Resource: "r"}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("it can be read: %v", err)
	}
	if state := log.State(); state.Dropped != 10_000-8192 || !strings.Contains(state.Err.Error(), path) {
		t.Errorf("state %+v", state)
	}
	began := time.Now()
	if err := log.Close(); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// Nothing that would let anybody use a hold is in the file.
func TestNoSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path, nil)
	h := driver.Status{Resource: "r", LockID: "the-lock-id-of-it", HoldID: driver.NewHoldID(), Token: 7, Left: time.Hour}
	log.Granted(h)
	log.Released(h.Ref(), time.Now())
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{h.LockID, h.HoldID.String(), string(h.HoldID[:])} {
		if strings.Contains(string(data), secret) {
			t.Errorf("the file has %q", secret)
		}
	}
}
