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

// Nobody: the user and the group that own nothing.
const nobody = 65534

// Signals that a process cannot refuse.
const (
	freeze = syscall.SIGSTOP
	thaw   = syscall.SIGCONT
)

// unprivileged makes a command of root's one of nobody's.
func unprivileged() *syscall.SysProcAttr {
	if os.Getuid() != 0 {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// unprivilegedDir is cacheDir for what runs without privileges. Where this is
// root, and a folder above .cache is closed to others, it is a folder among the
// temporary ones.
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

// temporaryDir returns a folder of root's, which everybody may read and nobody
// else could have put programs into.
func temporaryDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "holdfast-engines")
	if err := os.Mkdir(dir, 0o755); err == nil {
		err = os.Chmod(dir, 0o755) // whatever the umask is
		return dir, err
	} else if !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 || !info.IsDir() || info.Mode()&0o022 != 0 {
		return "", fmt.Errorf("%s is not root's alone", dir)
	}
	return dir, nil
}

// unprivilegedFolder makes a folder for the data of a server that runs without
// privileges.
func unprivilegedFolder(ctx context.Context) (string, error) {
	dir, err := unprivilegedDir(ctx)
	if err != nil {
		return "", err
	}
	// Its own parent, too: who watches over the server removes the folder.
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

// writeUnprivileged writes a file that such a server reads, and nobody else.
func writeUnprivileged(path string, content []byte) error {
	return errors.Join(os.WriteFile(path, content, 0o600), giveAway(path))
}

func giveAway(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(path, nobody, nobody)
}
