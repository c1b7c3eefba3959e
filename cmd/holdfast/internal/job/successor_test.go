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

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The successor releases its own hold, as often as it is asked to, and no other.
func TestInherit(t *testing.T) {
	where, err := location.Locate("sqlite://" + t.TempDir() + "/locks.db")
	check(t, err)
	client, err := holdfast.Open(t.Context(), where.URL, nil)
	check(t, err)
	defer client.Close()
	lock := func() *holdfast.Hold {
		t.Helper()
		h, err := client.TryLock(t.Context(), "r", nil)
		check(t, err)
		return h
	}
	left := func() time.Duration {
		t.Helper()
		for s, err := range client.Admin().Holds(t.Context(), holdfast.Filter{Resource: "r"}) {
			check(t, err)
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
		check(t, err)
		client, err := where.Open(t.Context())
		check(t, err)
		h, err := client.TryLock(t.Context(), "r", nil)
		check(t, err)
		var j Job
		j.Store = where
		j.Store.URL += parameters
		successor, err := j.successor(locks{h}, guard.Now())
		check(t, err)
		_ = client.Close()
		files, err := filepath.Glob(file + "*")
		check(t, err)
		for _, f := range files {
			check(t, os.Remove(f))
		}
		var e estate
		check(t, json.Unmarshal(successor.Input, &e))
		if err := e.release(t.Context()); !errors.Is(err, holdfast.ErrUnusable) {
			t.Errorf("%s: %v", e.URL, err)
		}
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("%s: there is a new file", e.URL)
		}
	}
}
