package sqlitelock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// asNobody calls f with the rights of a user without files. Root may write everywhere, so
// tests of read-only files need another user.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread ends with its rights
		if err := syscall.Setfsuid(65534); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

func TestRights(t *testing.T) {
	for name, c := range map[string]struct {
		made      bool
		file, dir os.FileMode
		says      string
	}{
		"file without rights":            {true, 0o000, 0o777, "readable and writable"},
		"read-only file":                 {true, 0o444, 0o777, "read"},
		"read-only file and folder":      {true, 0o444, 0o555, "read"},
		"read-only folder":               {true, 0o666, 0o555, "read"},
		"missing file, read-only folder": {false, 0, 0o555, "cannot be made"},
		"folder without rights":          {true, 0o666, 0o000, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "dir")
			// Both folders that TempDir creates are closed to others.
			check(t, errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755), os.Mkdir(dir, 0o700)))
			path := filepath.Join(dir, "locks.db")
			if c.made {
				s, err := sqlitelock.Open(t.Context(), path, nil)
				check(t, err)
				check(t, s.Close())
			}
			before := contents(t, path)
			if c.made {
				check(t, os.Chmod(path, c.file))
			}
			check(t, os.Chmod(dir, c.dir))
			asNobody(t, func() {
				s, err := sqlitelock.Open(t.Context(), path, nil)
				if err == nil {
					_ = s.Close()
					t.Error("it was opened")
					return
				}
				refused(t, err, path, c.says)
			})
			check(t, os.Chmod(dir, 0o700))
			if c.made {
				check(t, os.Chmod(path, 0o600))
			}
			if string(before) != string(contents(t, path)) {
				t.Error("the file was changed")
			}
		})
	}
}

// smallDisk returns the folder of a file system with little room.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("needs a small file system; only root can mount one: %v", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// A holder on a full disk loses its lock at the end of its lease, however many wait, and
// the error names the file and the cause. If there is room again before, the hold is
// renewed.
func TestHolderOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path, fill := filepath.Join(dir, "locks.db"), filepath.Join(dir, "fill")
	s := open(t, path)
	kept := mustAcquire(t, s, "kept", "a", time.Hour)
	client := holdfast.New(s, &holdfast.Options{TTL: 4 * time.Second, NoSweep: true})
	defer client.Close() // its hold cannot be released
	h, err := client.Lock(t.Context(), "r", nil)
	check(t, err)
	check(t, fillUp(fill))
	for i := range 70 {
		q := request("kept", fmt.Sprint(i, strings.Repeat("x", 1000)), time.Hour)
		q.Place, q.Fair = driver.NewPlaceID(), true
		if _, err := acquire(t.Context(), s, q); !errors.Is(err, driver.ErrHeld) {
			t.Fatalf("waiter %d: %v", i, err)
		}
	}
	select {
	case <-h.Context().Done():
		cause := context.Cause(h.Context())
		if !errors.Is(cause, holdfast.ErrUnreachable) {
			t.Errorf("lost because of %v", cause)
		}
		noRoom(t, cause, path)
	case <-time.After(time.Minute):
		t.Error("the hold is renewed on a full disk")
	}
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: kept, TTL: time.Hour}})
	check(t, err)
	noRoom(t, rs[0].Err, path)
	check(t, os.Remove(fill))
	renew(t, s, kept)
}

// A disk that is really full.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "locks.db")
	s := open(t, path)
	ref := mustAcquire(t, s, "first", "a", time.Hour)
	fill := filepath.Join(dir, "fill")
	check(t, fillUp(fill))
	var full error
	for i := 0; full == nil && i < 1000; i++ {
		_, full = acquire(t.Context(), s, request(fmt.Sprint("r", i), "a", time.Hour))
	}
	noRoom(t, full, path)

	other := filepath.Join(dir, "other.db")
	if s, err := sqlitelock.Open(t.Context(), other, nil); err == nil {
		_ = s.Close()
		t.Error("a file was created although there is no room")
	} else {
		noRoom(t, err, other)
	}

	check(t, os.Remove(fill))
	if h, held := holder(t, s, "first"); !held || h.Token != ref.Token {
		t.Errorf("the first hold is %+v", h)
	}
	mustRelease(t, s, ref)
	mustAcquire(t, s, "r", "b", time.Hour)
}

func fillUp(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				err = nil
			}
			return errors.Join(err, f.Close())
		}
	}
}
