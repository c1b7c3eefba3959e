package sqlitelock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-go/holdfast/driver"
)

// creating keeps this process from creating a file twice at the same time. POSIX locks
// belong to the process: if it closed a descriptor of a file that SQLite has open
// elsewhere in the process, SQLite's locks would be dropped.
var creating sync.Mutex

// smallestPage is the size of SQLite's smallest page, in bytes. Every database except an
// empty one is at least that large.
const smallestPage = 512

// prepareFile checks the path, and creates the file and folders if missing. It never
// opens an existing file; see creating.
func prepareFile(path string, mount func(string) (at, networkFS string), opts Options) (*file, error) {
	if path == "" {
		return nil, fmt.Errorf("%w: the SQLite file has no name", driver.ErrInvalid)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, unusable(path, "has no absolute path", err)
	}
	// It follows links before all checks, because locks belong to the file.
	real, err := resolve(abs)
	if err != nil {
		return nil, unusable(abs, "cannot be reached", err)
	}
	mountPoint, networkFS := mount(real)
	if networkFS != "" && !opts.AllowNetworkFS {
		return nil, fmt.Errorf("%w: SQLite file %s is on a network file system (%s), whose locks are not reliable; "+
			"the URL parameter network-fs=allow accepts that", driver.ErrUnusable, abs, networkFS)
	}
	creating.Lock()
	defer creating.Unlock()
	if err := create(abs, real, opts); err != nil {
		return nil, err
	}
	info, err := os.Stat(real)
	if err != nil {
		return nil, unusable(abs, "cannot be reached", err)
	}
	id, links := identify(info)
	isLost, err := id.isLost(real)
	what := ""
	switch {
	case err != nil:
		return nil, err
	case isLost:
		what = "was used by this process when it, its log or its shared memory was deleted, moved or replaced: restart the process"
	case info.IsDir():
		what = "is a directory"
	case !info.Mode().IsRegular():
		what = "is not a regular file"
	case info.Size() > 0 && info.Size() < smallestPage: // SQLite treats one byte as an empty file
		what = "is not a SQLite database"
	case links > 1: // SQLite has a log, and with it locks, for each name
		what = fmt.Sprintf("has %d names (hard links), and a program that opens it by another name would not see the locks: "+
			"remove the others, or use a symbolic link", links)
	case mountPoint == real:
		what = "is mounted by itself, so a program that opens it at its original path would not see the locks: " +
			"mount its folder instead"
	default:
		return &file{name: abs, path: real, names: namesOf(real), opened: id}, nil
	}
	return nil, fmt.Errorf("%w: SQLite file %s %s", driver.ErrUnusable, abs, what)
}

// create creates the file and its folders if missing. The path has no links.
func create(name, path string, opts Options) error {
	folder := filepath.Dir(path)
	switch _, err := os.Stat(folder); {
	case opts.NoCreate:
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: SQLite file %s does not exist, and create=no does not let it be made", driver.ErrUnusable, name)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist) && opts.Mode&^0o600 != 0:
		return fmt.Errorf("%w: SQLite file %s has no folder: make one first, for the users who share the file", driver.ErrUnusable, name)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return unusable(name, "has no folder and none can be made", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err == nil && opts.Mode != 0:
		err = errors.Join(f.Chmod(opts.Mode), f.Close()) // unlike OpenFile, Chmod ignores the umask
	case err == nil:
		err = f.Close()
	}
	if err != nil {
		return unusable(name, "cannot be made", err)
	}
	return nil
}

// resolve follows the symbolic links in the part of the path that exists.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", errors.New("it is a symbolic link to what does not exist")
	}
	dir := filepath.Dir(path)
	if dir == path {
		return "", err
	}
	dir, err = resolve(dir)
	return filepath.Join(dir, filepath.Base(path)), err
}

// file is the database with its log and its shared memory, as they were when the store
// was opened. SQLite locks files, not names: if a name now belongs to another file, a
// program that opens it takes locks that this process does not see, and two programs can
// hold one lock. So checkReplaced compares the files before each change.
type file struct {
	name   string // absolute, as the user gave it
	path   string // the same without symbolic links
	names  *names // of path
	opened fileID // the ID of the database from before it was opened

	ids     fileIDs // zero until remember
	logSize atomic.Int64
	changed atomic.Pointer[error] // permanent
}

type fileID struct{ dev, ino uint64 }

// fileIDs identify a database, its log and its shared memory. The ID of a missing file is
// zero.
type fileIDs struct{ db, wal, shm fileID }

// lost has the databases whose connections this process keeps although it cannot use
// them, see conn.close. A new connection would share their state in SQLite's memory.
// Their files stay open, so no new file gets the same inode number.
var lost sync.Map // fileIDs at the opening, by fileID

// names are the paths of a database, its shared memory and its log.
type names [3]string

func namesOf(path string) *names { return &names{path, path + "-shm", path + "-wal"} }

// isLost reports whether this process has lost the database and cannot use it again until
// moved files are back in place.
func (id fileID) isLost(path string) (bool, error) {
	then, is := lost.Load(id)
	if !is {
		return false, nil
	}
	now, _, err := identifyAll(namesOf(path))
	return then != now, err
}

// identifyAll opens no files: closing a file would drop SQLite's locks on it. It does not
// follow a link in place of a file, because SQLite has the log beside the file that the
// link leads to. It allocates nothing, because it is called before each change.
func identifyAll(names *names) (ids fileIDs, logSize int64, err error) {
	for i, id := range [...]*fileID{&ids.db, &ids.shm, &ids.wal} {
		var size int64
		*id, size, err = look(names[i])
		switch {
		case err == nil:
			logSize = size // the log is the last of the three files
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return ids, 0, unusable(names[i], "cannot be looked at", err)
		}
	}
	return ids, logSize, nil
}

// remember stores the IDs of the files, while a connection that has read the database
// keeps others from deleting its log. Only the first call stores them; later calls check
// them.
func (f *file) remember() error {
	if f.ids != (fileIDs{}) {
		return f.checkReplaced()
	}
	ids, _, err := identifyAll(f.names)
	switch {
	case err != nil:
		return err
	case ids.db != f.opened || ids.wal == (fileID{}) || ids.shm == (fileID{}):
		return f.replacedAsOpened()
	}
	f.ids = ids
	return nil
}

func (f *file) replacedAsOpened() error {
	return fmt.Errorf("%w: SQLite file %s was deleted, moved or replaced as it was opened: open it again",
		driver.ErrUnusable, f.path)
}

// checkReplaced returns an error if the files are not the opened ones. That is final:
// this process has other files open than programs that open them now.
func (f *file) checkReplaced() error {
	if err := f.changed.Load(); err != nil {
		return *err
	}
	ids, logSize, err := identifyAll(f.names)
	if err != nil { // the files may be there, but temporarily inaccessible
		return err
	}
	what := ""
	switch {
	case f.ids == (fileIDs{}):
		// A connection to a file that has lost its name would use the log of the file
		// that now has the name.
		if ids.db != f.opened {
			return f.replacedAsOpened()
		}
		return nil
	case ids.db != f.ids.db:
		what = "the file was deleted, moved or replaced while it was in use"
	case ids.wal != f.ids.wal:
		what = "its log (-wal) was deleted while it was in use, as happens after this program has read the file by other " +
			"means than SQLite"
	case ids.shm != f.ids.shm: // SQLite's own locks are in this file
		what = "its shared memory (-shm) was deleted while it was in use"
	default:
		f.logSize.Store(logSize)
		return f.checkLinks()
	}
	err = fmt.Errorf("%w: SQLite file %s is no longer what others see under that name: %s; "+
		"the locks that were taken through it are no longer valid, restart the programs that use it",
		driver.ErrUnusable, f.path, what)
	f.changed.CompareAndSwap(nil, &err)
	lost.Store(f.ids.db, f.ids)
	return err
}

// checkLinks returns an error if symbolic links now lead from the name to another file,
// which other programs open. This is not final: the links may be set back, and SQLite's
// files are unchanged.
func (f *file) checkLinks() error {
	if f.name == f.path {
		return nil
	}
	info, err := os.Stat(f.name)
	if err != nil {
		return unusable(f.name, "cannot be looked at", err)
	}
	if id, _ := identify(info); id != f.ids.db {
		return fmt.Errorf("%w: SQLite file %s was opened as %s, and symbolic links lead from that name to another file now: "+
			"the locks that were taken through it are no longer valid, restart the programs that use it", driver.ErrUnusable, f.path, f.name)
	}
	return nil
}

// isReplaced reports whether checkReplaced has failed for good.
func (f *file) isReplaced() bool { return f.checkReplaced() != nil && f.changed.Load() != nil }
