//go:build unix

package sqlitelock_test

import (
	"syscall"
	"testing"
)

func makePipe(t *testing.T, path string) {
	check(t, syscall.Mkfifo(path, 0o600))
}
