//go:build unix

package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// nobody is the user and the group without files.
const nobody = 65534

// Signals that a process cannot ignore.
const (
	freeze = syscall.SIGSTOP
	thaw   = syscall.SIGCONT
)

// unprivileged returns the attributes with which root runs a command as nobody.
func unprivileged() *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// unprivilegedDir is cacheDir for programs without privileges. If this process is root and a
// folder above .cache is closed to others, it is a temporary folder.
func unprivilegedDir(ctx context.Context) (string, error) {
	cache, err := cacheDir(ctx)
	if err != nil || os.Getuid() != 0 {
		return cache, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	for dir := cache; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return "", err
		}
		if info.Mode()&0o005 != 0o005 {
			return temporaryDir()
		}
		if dir == filepath.Dir(dir) {
			return cache, nil
		}
	}
}

// temporaryDir returns a folder of root that everybody may read, and in which nobody else could
// have put programs.
func temporaryDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "holdfast-engines")
	if err := os.Mkdir(dir, 0o755); err == nil {
		err = os.Chmod(dir, 0o755) // independent of the umask
		return dir, err
	} else if !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 || !info.IsDir() || info.Mode()&0o022 != 0 {
		return "", fmt.Errorf("%s: want a folder in which only root can write", dir)
	}
	return dir, nil
}

// unprivilegedFolder creates a folder for the data of a server without privileges.
func unprivilegedFolder(ctx context.Context) (string, error) {
	dir, err := unprivilegedDir(ctx)
	if err != nil {
		return "", err
	}
	// It also has a parent of its own: the watcher removes the folder.
	parent := filepath.Join(dir, "nodes")
	if os.Getuid() == 0 {
		parent = filepath.Join(dir, "nodes-of-nobody")
	}
	folder := filepath.Join(parent, Name())
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	return folder, errors.Join(giveAway(parent), giveAway(folder))
}

// writeUnprivileged writes a file that only such a server can read.
func writeUnprivileged(path string, content []byte) error {
	return errors.Join(os.WriteFile(path, content, 0o600), giveAway(path))
}

func giveAway(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(path, nobody, nobody)
}
