package sqlitelock

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// creating keeps two opens of this process from making a file at once. POSIX
// locks belong to the process: to close a descriptor of the file while SQLite
// has it open elsewhere in the process would drop SQLite's locks.
var creating sync.Mutex

// smallestPage is that of SQLite. No database is smaller, but for an empty one.
const smallestPage = 512

// prepareFile checks the path, makes what is missing, and returns the absolute
// path. It never opens a file that exists; see creating.
func prepareFile(path string, networkFS func(path string) string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("%w: the SQLite file has no name", driver.ErrInvalid)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", unusable(path, "has no absolute path", err)
	}
	// Links are followed before anything is judged: locks belong to the file.
	file, err := resolve(abs)
	if err != nil {
		return "", unusable(abs, "cannot be reached", err)
	}
	if fsType := networkFS(file); fsType != "" {
		return "", fmt.Errorf("%w: SQLite file %s is on a network file system (%s), whose locks cannot be relied on; "+
			"the URL parameter network-fs=allow accepts that", driver.ErrUnusable, abs, fsType)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", unusable(abs, "has no folder and none can be made", err)
	}
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case err == nil:
		if err := f.Close(); err != nil {
			return "", unusable(abs, "cannot be made", err)
		}
		return file, nil
	case !errors.Is(err, fs.ErrExist):
		return "", unusable(abs, "cannot be made", err)
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return "", unusable(abs, "cannot be reached", err)
	case info.IsDir():
		return "", fmt.Errorf("%w: SQLite file %s is a directory", driver.ErrUnusable, abs)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: SQLite file %s is not a regular file", driver.ErrUnusable, abs)
	case info.Size() > 0 && info.Size() < smallestPage:
		// SQLite takes one byte for none.
		return "", fmt.Errorf("%w: SQLite file %s is not a SQLite database", driver.ErrUnusable, abs)
	}
	return file, oneName(abs, file)
}

// oneName refuses a file that is known under another name as well: SQLite keeps its
// log beside each name, and what has another log has other locks. So has one that was
// lost to this process.
func oneName(abs, file string) error {
	id, links, _, err := identify(file)
	var gone bool
	if err == nil {
		gone, err = isLost(id, file)
	}
	switch {
	case err != nil:
		return unusable(abs, "cannot be reached", err)
	case gone:
		return fmt.Errorf("%w: SQLite file %s was used by this process when it, its log or its shared memory was deleted, moved or "+
			"replaced: restart the process", driver.ErrUnusable, abs)
	case links > 1:
		return fmt.Errorf("%w: SQLite file %s has %d names (hard links), and who opens it by another name would not see the "+
			"locks: remove the others, or use a symbolic link", driver.ErrUnusable, abs, links)
	case isMountPoint(file):
		return fmt.Errorf("%w: SQLite file %s is mounted by itself, so who opens it where it comes from would not see the "+
			"locks: mount its folder instead", driver.ErrUnusable, abs)
	}
	return nil
}

// resolve follows the symbolic links in as much of the path as exists.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&fs.ModeSymlink != 0 {
			return "", errors.New("it is a symbolic link to what does not exist")
		}
		return filepath.EvalSymlinks(path) // made by somebody a moment ago
	}
	dir := filepath.Dir(path)
	if dir == path {
		return "", err
	}
	dir, err = resolve(dir)
	return filepath.Join(dir, filepath.Base(path)), err
}

// unusable says what is wrong with the file, without its name twice.
func unusable(path, what string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) && p.Path == path {
		err = p.Err
	}
	return fmt.Errorf("%w: SQLite file %s %s: %w", driver.ErrUnusable, path, what, err)
}

// dsn is the file as the SQLite driver wants it: a URI, in which no character of
// the name has a meaning. It does not create the file: that would be with
// whatever rights the umask leaves.
func dsn(file string, fullSync bool) string {
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/dir/file.db
	}
	synchronous := "normal"
	if fullSync {
		synchronous = "full"
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode":         {"rw"},
		"_synchronous": {synchronous},
		"_error_rc":    {"1"},
		"_pragma":      {fmt.Sprintf("journal_size_limit(%d)", maxLog), "wal_autocheckpoint(0)"},
	}.Encode()}
	return u.String()
}
