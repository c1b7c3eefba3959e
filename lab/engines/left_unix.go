//go:build unix

package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// kept is how long the data of a stopped server are kept for a restart. Older data are left
// from a power loss, or because the server and its watcher were killed.
const kept = time.Hour

// lockName is the file that is locked while a server uses the folder. It differs from the file
// of a search node, which locks in another way.
const lockName = "in-use"

// lockFolder locks the folder for the processes that inherit the file, and removes unused
// folders beside it.
func lockFolder(ctx context.Context, folder string) (file *os.File, err error) {
	// The watcher of the previous server may need a moment to end.
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := poll(ctx, func() error { file, err = lockFile(folder, os.O_CREATE); return err }); err != nil {
		return nil, fmt.Errorf("%s is in use: %w", folder, err)
	}
	now := time.Now()
	if err := os.Chtimes(file.Name(), now, now); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	others, err := filepath.Glob(filepath.Join(filepath.Dir(folder), "*", lockName))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for _, other := range others {
		info, err := os.Stat(other)
		if err != nil || now.Sub(info.ModTime()) < kept {
			continue
		}
		if left, err := lockFile(filepath.Dir(other), 0); err == nil {
			os.RemoveAll(filepath.Dir(other)) // otherwise the next run does it
			left.Close()
		}
	}
	return file, nil
}

func lockFile(folder string, flag int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(folder, lockName), flag|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
