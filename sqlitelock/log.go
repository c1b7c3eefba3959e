package sqlitelock

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// file is the database with its log and its shared memory, as they were when the store was opened.
// SQLite locks files, not names: where the name has come to stand for another
// file, or for another log, whoever opens it now takes locks that this process
// does not see, and two would hold one lock. So before each change it is checked
// that they are the same.
type file struct {
	path string

	db, wal, shm fileID // zero until remember

	size    atomic.Int64
	changed atomic.Pointer[error] // for good
}

// lost has the databases of which this process keeps connections that are of no use:
// see conn.close. SQLite would let a new connection share what these have in memory.
// Their files stay open, so that no other gets the number of one.
var lost sync.Map // of fileID, with the beside of then

// beside are the files that a database has beside it.
type beside struct{ wal, shm fileID }

// isLost reports whether this process has lost the database and cannot use it again:
// unless what was moved has been put back.
func isLost(id fileID, path string) (bool, error) {
	then, is := lost.Load(id)
	if !is {
		return false, nil
	}
	wal, _, _, walErr := identify(path + "-wal")
	shm, _, _, shmErr := identify(path + "-shm")
	return then != beside{wal, shm}, errors.Join(walErr, shmErr)
}

// remember takes note of the files, while a connection that has read the database
// keeps others from deleting its log.
func (f *file) remember() error {
	db, _, _, err := identify(f.path)
	if err != nil {
		return unusable(f.path, "cannot be looked at", err)
	}
	wal, _, _, err := identify(f.path + "-wal")
	if err != nil {
		return unusable(f.path+"-wal", "cannot be looked at", err)
	}
	shm, _, _, err := identify(f.path + "-shm")
	if err != nil {
		return unusable(f.path+"-shm", "cannot be looked at", err)
	}
	if db == (fileID{}) || wal == (fileID{}) || shm == (fileID{}) {
		return fmt.Errorf("%w: SQLite file %s was deleted as it was opened", driver.ErrUnusable, f.path)
	}
	f.db, f.wal, f.shm = db, wal, shm
	return nil
}

// check returns an error if the files are not those that were opened. That is so
// for good then: what this process has open is no longer what others see.
func (f *file) check() error {
	if f.db == (fileID{}) {
		return nil
	}
	if err := f.changed.Load(); err != nil {
		return *err
	}
	db, _, _, err := identify(f.path)
	if err != nil { // it may be there, and cannot be seen for a while
		return unusable(f.path, "cannot be looked at", err)
	}
	wal, _, size, err := identify(f.path + "-wal")
	if err != nil {
		return unusable(f.path+"-wal", "cannot be looked at", err)
	}
	shm, _, _, err := identify(f.path + "-shm")
	if err != nil {
		return unusable(f.path+"-shm", "cannot be looked at", err)
	}
	what := ""
	switch {
	case db != f.db:
		what = "the file was deleted, moved or replaced while it was in use"
	case wal != f.wal:
		what = "its log (-wal) was deleted while it was in use, as happens after this program has read the file by other " +
			"means than SQLite"
	case shm != f.shm: // which SQLite's own locks are in
		what = "its shared memory (-shm) was deleted while it was in use"
	default:
		f.size.Store(size)
		return nil
	}
	err = fmt.Errorf("%w: SQLite file %s is no longer what others see under that name: %s; "+
		"the locks that were taken through it do not count any more, restart what uses it",
		driver.ErrUnusable, f.path, what)
	f.changed.CompareAndSwap(nil, &err)
	lost.Store(f.db, beside{f.wal, f.shm})
	return err
}

// isAnother reports what check says for good.
func (f *file) isAnother() bool { return f.check() != nil && f.changed.Load() != nil }
