//go:build unix

package historyfile_test

import "syscall"

func umask(mask int) (old int) { return syscall.Umask(mask) }
