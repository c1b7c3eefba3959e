package sqlitelock

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
)

// file is the database with its log and its shared memory, as they were when the
// store was opened. SQLite locks files, not names: where a name has come to stand for
// another file, whoever opens it now takes locks that this process does not see, and
// two would hold one lock. So before each change it is checked that they are the same.
type file struct {
	path string

	ids     fileIDs // zero until remember
	size    atomic.Int64
	changed atomic.Pointer[error] // for good
}

// lost has the databases of which this process keeps connections that are of no use:
// see conn.close. SQLite would let a new connection share what these have in memory.
// Their files stay open, so that no other gets the number of one.
var lost sync.Map // of fileID, with the fileIDs of then

// fileIDs are those of a database, its log and its shared memory; zero of what is not
// there.
type fileIDs struct{ db, wal, shm fileID }

// identifyAll also returns the size of the log.
func identifyAll(path string) (ids fileIDs, size int64, err error) {
	for _, f := range []struct {
		suffix string
		id     *fileID
	}{{"", &ids.db}, {"-shm", &ids.shm}, {"-wal", &ids.wal}} {
		if *f.id, _, size, err = identify(path + f.suffix); err != nil {
			return ids, 0, unusable(path+f.suffix, "cannot be looked at", err)
		}
	}
	return ids, size, nil
}

// isLost reports whether this process has lost the database and cannot use it again:
// unless what was moved has been put back.
func isLost(id fileID, path string) (bool, error) {
	then, is := lost.Load(id)
	if !is {
		return false, nil
	}
	now, _, err := identifyAll(path)
	return then != now, err
}

// remember takes note of the files, while a connection that has read the database
// keeps others from deleting its log.
func (f *file) remember() error {
	ids, _, err := identifyAll(f.path)
	if err != nil {
		return err
	}
	if ids.db == (fileID{}) || ids.wal == (fileID{}) || ids.shm == (fileID{}) {
		return fmt.Errorf("%w: SQLite file %s was deleted as it was opened", driver.ErrUnusable, f.path)
	}
	f.ids = ids
	return nil
}

// check returns an error if the files are not those that were opened. That is so
// for good then: what this process has open is no longer what others see.
func (f *file) check() error {
	if f.ids == (fileIDs{}) {
		return nil
	}
	if err := f.changed.Load(); err != nil {
		return *err
	}
	ids, size, err := identifyAll(f.path)
	if err != nil { // it may be there, and cannot be seen for a while
		return err
	}
	what := ""
	switch {
	case ids.db != f.ids.db:
		what = "the file was deleted, moved or replaced while it was in use"
	case ids.wal != f.ids.wal:
		what = "its log (-wal) was deleted while it was in use, as happens after this program has read the file by other " +
			"means than SQLite"
	case ids.shm != f.ids.shm: // which SQLite's own locks are in
		what = "its shared memory (-shm) was deleted while it was in use"
	default:
		f.size.Store(size)
		return nil
	}
	err = fmt.Errorf("%w: SQLite file %s is no longer what others see under that name: %s; "+
		"the locks that were taken through it do not count any more, restart what uses it",
		driver.ErrUnusable, f.path, what)
	f.changed.CompareAndSwap(nil, &err)
	lost.Store(f.ids.db, f.ids)
	return err
}

// isAnother reports what check says for good.
func (f *file) isAnother() bool { return f.check() != nil && f.changed.Load() != nil }
