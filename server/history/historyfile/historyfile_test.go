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

func open(t *testing.T, path string) *history.Log {
	t.Helper()
	return bounded(t, path, 7*24*time.Hour, 128<<20)
}

func bounded(t *testing.T, path string, keep time.Duration, maxBytes int64) *history.Log {
	t.Helper()
	log, err := historyfile.OpenBounded(t.Context(), path, keep, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// note notes n grants of the resource, and waits until they are written.
func note(t *testing.T, log *history.Log, resource string, n int, details driver.Details) {
	t.Helper()
	for wanted := log.State().Noted; n > 0; {
		some := min(n, 4000)
		for range some {
			log.Granted(driver.Status{Resource: resource, HoldID: driver.NewHoldID(), Token: 7, Details: details}, "ada")
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

func holds(t *testing.T, log *history.Log, resource string) []history.Hold {
	t.Helper()
	all, err := log.Holds(t.Context(), history.Query{Resource: resource, Limit: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// All of a hold is there again after the file was closed.
func TestKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a folder with # and ?", "history.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	log := open(t, path)
	id := driver.NewHoldID()
	details := driver.Details{Owner: "ada", Host: "engine", Comment: "it's \"for\" \x00 tests"}
	log.Granted(driver.Status{Resource: "r", HoldID: id, Token: 1 << 40, Mode: driver.Shared, Limit: 3, Details: details}, "ada")
	sent := time.Now()
	log.Forced(driver.HoldRef{Resource: "r", HoldID: id, Token: 1 << 40}, sent, "ops", "it hung")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	all := holds(t, open(t, path), "r")
	if len(all) != 1 {
		t.Fatalf("%d holds", len(all))
	}
	if h := all[0]; h.Mode != driver.Shared || h.Limit != 3 || h.Token != 1<<40 || h.Details != details || len(h.Ref) != 8 ||
		h.Began.After != h.Began.By || time.Since(h.Began.By) > time.Minute || h.How != history.Forced || h.By != "ops" || h.Reason != "it hung" ||
		h.Ended.By.UnixMicro() != sent.UnixMicro() || h.Ended.After != h.Ended.By {
		t.Errorf("%+v", h)
	}
}

// The file is as large as it may get, and what one caller does often pushes nobody else's holds
// out, nor those of its other resources.
func TestIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("thorough: it takes minutes with the race detector")
	}
	path := filepath.Join(t.TempDir(), "history.db")
	const most = 32 << 20
	log := bounded(t, path, 24*time.Hour, most)
	note(t, log, "nightly", 100, driver.Details{})
	for i := range 100 {
		log.Granted(driver.Status{Resource: fmt.Sprint("bob/", i), HoldID: driver.NewHoldID(), Token: 7}, "bob")
	}
	long := strings.Repeat("x", 1000)
	flood := func(resource func(int) string) {
		for range 8 {
			wanted := log.State().Noted + 4000
			for i := range 4000 {
				log.Granted(driver.Status{Resource: resource(i), HoldID: driver.NewHoldID(), Token: 7, Details: driver.Details{Comment: long}}, "bob")
			}
			until(t, log, "all is written", func(s history.State) bool { return s.Noted >= wanted })
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > most {
				t.Fatalf("the file has %d bytes", info.Size())
			}
		}
	}
	flood(func(int) string { return "bob/often" })
	for i := range 100 {
		if n := len(holds(t, log, fmt.Sprint("bob/", i))); n != 1 {
			t.Errorf("bob/%d has %d holds", i, n)
		}
	}
	if n := len(holds(t, log, "bob/often")); n < 1000 || n > 31_000 {
		t.Errorf("%d holds are left of 32000", n)
	}
	flood(func(i int) string { return fmt.Sprint("bob/new/", i, long[:500]) })
	if n := len(holds(t, log, "nightly")); n != 100 {
		t.Errorf("another caller has %d holds of 100", n)
	}
	if s := log.State(); s.Err != nil || s.Dropped != 0 || s.Removed.Before(s.Since) {
		t.Errorf("state %+v", s)
	}
}

// A file that is mapped into memory can stop or kill the whole program: see open.
func TestMapsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path)
	note(t, log, "r", 1, driver.Details{})
	holds(t, log, "r")
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", suffix, err)
		}
	}
}

// No other program can read the file, and delay what is written.
func TestOthersCannotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path)
	note(t, log, "r", 1, driver.Details{})
	reader, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var n int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM holds").Scan(&n); err == nil {
		t.Errorf("%d holds", n)
	}
	note(t, log, "r", 1, driver.Details{})
}

func TestKeepsForSomeTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := bounded(t, path, time.Nanosecond, 32<<20)
	note(t, log, "held", 10, driver.Details{})
	for range 2 {
		h := driver.Status{Resource: "r", HoldID: driver.NewHoldID(), Token: 7}
		log.Granted(h, "ada")
		log.Released(h.Ref(), time.Now())
		note(t, log, "held", 1, driver.Details{})
	}
	note(t, log, "held", 1, driver.Details{})
	if n := len(holds(t, log, "r")); n != 0 {
		t.Errorf("%d holds are left", n)
	}
	if n := len(holds(t, log, "held")); n != 13 {
		t.Errorf("%d of 13 are left that have no end", n)
	}
}

func TestPrivate(t *testing.T) {
	old := umask(0)
	defer umask(old)
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path)
	note(t, log, "r", 1, driver.Details{})
	for _, suffix := range []string{"", "-journal"} {
		if info, err := os.Stat(path + suffix); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, error %v", suffix, info, err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, path, "chmod 600")
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, path)
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
	log := open(t, path)
	wantRefused(t, path, "each server needs a file of its own")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, filepath.Join(link, "history.db"), "each server needs a file of its own")
	note(t, log, "r", 1, driver.Details{}) // the first one goes on
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path)
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
			log := open(t, path)
			note(t, log, "r", 1, driver.Details{})
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			log.Granted(driver.Status{Resource: "r", HoldID: driver.NewHoldID(), Token: 8}, "ada")
			until(t, log, "it notices", fails)
			if err := log.Close(); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "removed or replaced") {
				t.Errorf("error %v", err)
			}
			if s := log.State(); s.Dropped != 1 {
				t.Errorf("state %+v", s)
			}
		})
	}
	open(t, path) // an empty file is a new one
}

// Without a name, all resources are meant.
func TestAllResources(t *testing.T) {
	log := open(t, filepath.Join(t.TempDir(), "history.db"))
	for _, resource := range []string{"a", "b", "c"} {
		note(t, log, resource, 2, driver.Details{})
	}
	first, err := log.Holds(t.Context(), history.Query{Limit: 4})
	if err != nil || len(first) != 4 || first[0].Resource != "c" || first[3].Resource != "b" {
		t.Fatalf("first: %+v, %v", first, err)
	}
	rest, err := log.Holds(t.Context(), history.Query{Before: first[3].Number})
	if err != nil || len(rest) != 2 || rest[0].Resource != "a" || rest[1].Resource != "a" {
		t.Errorf("rest: %+v, %v", rest, err)
	}
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
	wantRefused(t, path("none/history.db"), "no such file")
	if err := os.Symlink(path("text"), path("link")); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path("link"), "not a regular file")

	run(t, path("foreign"), "CREATE TABLE t (x)")
	if err := os.Chmod(path("foreign"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path("foreign"), "another program has made it")

	open(t, path("layout")).Close()
	for _, version := range []int{1, 99} {
		run(t, path("layout"), fmt.Sprintf("PRAGMA user_version = %d", version))
		before, _ := os.ReadFile(path("layout"))
		wantRefused(t, path("layout"), "another version of Holdfast has made it, with another layout; move it away")
		if after, err := os.ReadFile(path("layout")); err != nil || string(after) != string(before) {
			t.Error("the file of another version was changed")
		}
	}

	log := open(t, path("damaged"))
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

// Nothing that would let anybody use a hold is in the file.
func TestNoSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	log := open(t, path)
	h := driver.Status{Resource: "r", LockID: "the-lock-id-of-it", HoldID: driver.NewHoldID(), Token: 7}
	log.Granted(h, "ada")
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
