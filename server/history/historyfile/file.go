package historyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// prepare makes the file for its owner alone, if it is missing, and returns an error unless it
// is a regular file that nobody else may read or write. It opens no file that exists: to close it
// again would drop the locks that SQLite has on it in this process.
func prepare(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return errors.Join(f.Chmod(0o600), f.Close()) // a umask may have taken rights of the owner
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("history: %w", err)
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return fmt.Errorf("history: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("history %s: it is not a regular file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("history %s: it can be used by others than its owner (mode %#o), who would see what is locked, and by whom: chmod 600 it",
			path, info.Mode().Perm())
	}
	return nil
}
