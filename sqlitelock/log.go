package sqlitelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// file is the database with its log, as they were when the store was opened.
// SQLite locks files, not names: where the name has come to stand for another
// file, or for another log, whoever opens it now takes locks that this process
// does not see, and two would hold one lock. So before each change it is checked
// that they are the same.
type file struct {
	path string

	db, wal os.FileInfo // nil until remember
	size    atomic.Int64
	changed atomic.Pointer[error] // for good
}

// remember takes note of the files, while a connection that has read the database
// keeps others from deleting its log.
func (f *file) remember() (err error) {
	if f.db, err = os.Stat(f.path); err == nil {
		f.wal, err = os.Stat(f.path + "-wal")
	}
	if err != nil {
		f.db = nil
		return unusable(f.path, "cannot be looked at", err)
	}
	return nil
}

// check returns an error if the files are not those that were opened. That is so
// for good then: what this process has open is no longer what others see.
func (f *file) check() error {
	if f.db == nil {
		return nil
	}
	if err := f.changed.Load(); err != nil {
		return *err
	}
	db, err := f.stat("", f.db)
	if err != nil {
		return err
	}
	wal, err := f.stat("-wal", f.wal)
	if err != nil {
		return err
	}
	what := ""
	switch {
	case db == nil:
		what = "the file was deleted, moved or replaced"
	case wal == nil:
		what = "its log (-wal) was deleted, as can happen after this program read the file by other means than SQLite"
	default:
		f.size.Store(wal.Size())
		return nil
	}
	err = fmt.Errorf("%w: SQLite file %s is no longer what others see under its name: %s while it was in use; "+
		"the locks that were taken through it do not count any more: restart what uses it",
		driver.ErrUnusable, f.path, what)
	f.changed.CompareAndSwap(nil, &err)
	return err
}

// isAnother reports what check says for good.
func (f *file) isAnother() bool { return f.check() != nil && f.changed.Load() != nil }

// stat looks at a file, and returns nil if it is not the one that it was.
func (f *file) stat(suffix string, was os.FileInfo) (os.FileInfo, error) {
	is, err := os.Stat(f.path + suffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil: // it may be there, and cannot be seen for a while
		return nil, unusable(f.path+suffix, "cannot be looked at", err)
	case !os.SameFile(was, is):
		return nil, nil
	}
	return is, nil
}

// maxLog is how large the log may grow before a writer waits until it can begin
// anew. SQLite's own checkpoints do not get there while several processes write
// all the time: before one is at the end of the log, it has grown. keptLog is what
// is kept of it then, and reserves that much of the disk for later changes.
const (
	maxLog  = 16 << 20
	keptLog = 4 << 20
)

// bound lets the log begin anew if it is large. It is tried after each change until
// it succeeds, for it fails while another process reads or writes.
func (f *file) bound(c *conn) {
	if f.size.Load() > maxLog {
		_ = c.script(restartSQL)
	}
}
