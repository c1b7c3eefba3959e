package historyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
)

// making keeps this process from making a file while it opens it: see make.
var making sync.Mutex

// prepare makes the file and its lock for their owner alone, if they are missing, and checks
// those that are there. It returns the path without symbolic links. It opens no file that
// exists: to close it again would drop the locks that SQLite has on it in this process.
func prepare(path string) (string, error) {
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("history %s: its folder cannot be used: %w", path, err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", fmt.Errorf("history %s: %w", path, err)
	}
	file := filepath.Join(folder, filepath.Base(path))
	making.Lock()
	defer making.Unlock()
	for _, name := range []string{file, file + lockSuffix} {
		if err := makePrivate(name); err != nil {
			return "", fmt.Errorf("history: %w", err)
		}
	}
	for _, name := range []string{file, file + "-journal", file + lockSuffix} {
		if err := isPrivate(name); err != nil {
			return "", fmt.Errorf("history: %w", err)
		}
	}
	return file, nil
}

func makePrivate(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close()) // a umask may have taken rights of the owner
}

// isPrivate returns an error unless it is a regular file, or none, that has one name and that
// nobody but its owner may read or write. The lock and the journal are beside a name: a server
// that has the file by another one would not find them, and would destroy it.
func isPrivate(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", name)
	case names(info) > 1:
		return fmt.Errorf("%s has %d names (hard links), and by another one a second server would destroy it: remove the others",
			name, names(info))
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s can be used by others than its owner (mode %#o), who would see what is locked, and by whom: chmod 600 it",
			name, info.Mode().Perm())
	}
	return nil
}
