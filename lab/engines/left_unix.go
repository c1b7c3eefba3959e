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

// kept is how long the data of a server stay that is stopped, and may be started
// again. Longer stays only what a power cut left, or somebody who ended the server
// and what watches over it.
const kept = time.Hour

// lockName is a file that is locked for as long as a server has the folder. It is
// another one than that of a search node, which other processes lock otherwise.
const lockName = "in-use"

// lockFolder takes the folder for the processes that inherit the file, and removes
// others beside it that are of no use any more.
func lockFolder(ctx context.Context, folder string) (file *os.File, err error) {
	// What watched over the server before may need a moment to end.
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
			os.RemoveAll(filepath.Dir(other)) // or else the next time
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
