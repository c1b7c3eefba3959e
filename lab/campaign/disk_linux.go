package campaign

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// disk is a small file system for one campaign.
type disk struct{ folder string }

// diskSize is enough for the log of a SQLite file, which may grow to 64 MB under many writes: a
// crowd filled 8 MB without any fault.
const diskSize = "size=80m"

// newDisk mounts a disk. It returns nil without the rights of root.
func newDisk(t testing.TB) *disk {
	t.Helper()
	d := &disk{t.TempDir()}
	if err := syscall.Mount("tmpfs", d.folder, "tmpfs", 0, diskSize); err != nil {
		t.Log("no disk that can be full or read-only: ", err)
		return nil
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *disk) filler() string { return filepath.Join(d.folder, "filler") }

// fill leaves no free space.
func (d *disk) fill() error {
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// free removes the filling again.
func (d *disk) free() error { return os.Remove(d.filler()) }

// writable switches between writable and read-only. No process may have a file open on the
// disk.
func (d *disk) writable(yes bool) error {
	flags := uintptr(syscall.MS_REMOUNT | syscall.MS_RDONLY)
	if yes {
		flags = syscall.MS_REMOUNT
	}
	return syscall.Mount("tmpfs", d.folder, "tmpfs", flags, diskSize)
}
