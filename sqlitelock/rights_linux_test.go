package sqlitelock_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// asNobody calls f with the rights of a user without files. Root may write everything, so
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
			// Both of the folders that TempDir makes are closed to others.
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

// Holds can be renewed on a full disk: renewals need no more room than they have, in a new
// file and in an old one.
func TestRenewalsOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "locks.db")
	for _, what := range []string{"new file", "opened again"} {
		t.Run(what, func(t *testing.T) {
			s := open(t, path)
			ref := mustAcquire(t, s, what, "a", time.Hour)
			fill := filepath.Join(dir, "fill")
			check(t, fillUp(fill))
			for range 100 {
				renew(t, s, ref)
			}
			if _, err := acquire(t.Context(), s, request(strings.Repeat("x", 1000), "a", time.Hour)); err != nil {
				refused(t, err, path, "full")
			}
			renew(t, s, ref)
			check(t, os.Remove(fill))
			mustRelease(t, s, ref)
		})
	}
}

// A program renews all its holds in one change, which needs a page of the log for each page
// of the file that it changes. A log is new when a program opens the file.
func TestManyRenewalsOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "locks.db")
	first := open(t, path)
	var all []driver.RenewRequest
	for i := range 9 {
		q := request(fmt.Sprint("r", i), "a", time.Hour)
		q.Details.Comment = strings.Repeat("x", 600) // so that a page has room for four or five
		ref, err := acquire(t.Context(), first, q)
		check(t, err)
		all = append(all, driver.RenewRequest{HoldRef: ref, TTL: time.Hour})
	}
	check(t, first.Close())
	s := open(t, path)
	renew(t, s, all[0].HoldRef)
	check(t, fillUp(filepath.Join(dir, "fill")))
	for range 20 {
		results, err := s.Renew(t.Context(), all)
		check(t, err)
		for _, r := range results {
			check(t, r.Err)
		}
	}
}

// Locks that others acquire while the disk is full, in the space that renewals leave in the
// log, take nothing from a holder: a new file has pages for them.
func TestOthersOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "locks.db")
	s := open(t, path)
	ref := mustAcquire(t, s, "held", "a", time.Hour)
	check(t, fillUp(filepath.Join(dir, "fill")))
	granted := 0
	for i := 0; granted < 8; i++ {
		renew(t, s, ref)
		q := request(fmt.Sprint("other", i), "b", time.Hour)
		q.Details.Comment = strings.Repeat("x", 3000) // so that it needs a page of its own
		_, err := acquire(t.Context(), s, q)
		switch {
		case err == nil:
			granted++
		case i == 100:
			t.Fatalf("%d other locks were granted, then: %v", granted, err)
		}
	}
	for range 100 {
		renew(t, s, ref)
	}
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
	refused(t, full, path, "full")

	other := filepath.Join(dir, "other.db")
	if s, err := sqlitelock.Open(t.Context(), other, nil); err == nil {
		_ = s.Close()
		t.Error("a file was made where there is no room")
	} else if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), other) {
		t.Errorf("open on a full disk: %v", err)
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
