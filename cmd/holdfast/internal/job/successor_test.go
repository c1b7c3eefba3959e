package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/driver"
)

// The successor releases its own hold, as often as it is asked to, and no other.
func TestInherit(t *testing.T) {
	where, err := location.Locate("sqlite://" + t.TempDir() + "/locks.db")
	if err != nil {
		t.Fatal(err)
	}
	client, err := holdfast.Open(t.Context(), where.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lock := func() *holdfast.Hold {
		t.Helper()
		h, err := client.TryLock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	left := func() time.Duration {
		t.Helper()
		for s, err := range client.Admin().Holds(t.Context(), holdfast.Filter{Resource: "r"}) {
			if err != nil {
				t.Fatal(err)
			}
			return s.Left
		}
		return 0
	}
	free := func() bool { return left() == 0 }
	input := func(h *holdfast.Hold, atLeast time.Duration) []byte {
		t.Helper()
		var j Job
		j.Store, j.atLeast = where, atLeast
		successor, err := j.successor(locks{h}, guard.Now())
		if err != nil || !IsSuccessor(successor.Args) {
			t.Fatal(successor, err)
		}
		return successor.Input
	}

	h := lock()
	first := input(h, 0)
	if err := Inherit(bytes.NewReader(input(h, time.Hour))); err != nil || left() < 59*time.Minute {
		t.Errorf("with --at-least 1h: %v, left: %v", err, left())
	}
	for range 2 {
		if err := Inherit(bytes.NewReader(first)); err != nil || !free() {
			t.Errorf("%v, free: %v", err, free())
		}
	}
	lock()
	if err := Inherit(bytes.NewReader(first)); err != nil || free() {
		t.Errorf("when another has the lock: %v, free: %v", err, free())
	}
	if err := Inherit(bytes.NewReader([]byte(`{"URL": "` + where.URL + `", "Holds": [{"Resource": "r", "LockID": "id"}]}`))); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("without a hold: %v", err)
	}

	var delayed Job
	delayed.Options.TakeoverDelay = time.Second
	if successor, err := delayed.successor(locks{h}, 0); successor != nil || err != nil {
		t.Errorf("with a takeover delay: %v, %v", successor, err)
	}
}

// Where the file of the locks was deleted there is nothing to release, and no new file is made.
func TestInheritNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "locks.db")
	for _, parameters := range []string{"", "?create=yes&synchronous=full", "?create=no"} {
		where, err := location.Locate("sqlite://" + file)
		if err != nil {
			t.Fatal(err)
		}
		client, err := where.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h, err := client.TryLock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		var j Job
		j.Store = where
		j.Store.URL += parameters
		successor, err := j.successor(locks{h}, guard.Now())
		if err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		files, err := filepath.Glob(file + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
		var e estate
		if err := json.Unmarshal(successor.Input, &e); err != nil {
			t.Fatal(err)
		}
		if err := e.release(t.Context()); !errors.Is(err, holdfast.ErrUnusable) {
			t.Errorf("%s: %v", e.URL, err)
		}
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("%s: there is a new file", e.URL)
		}
	}
}
