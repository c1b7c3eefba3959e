//go:build unix

package historyfile

import (
	"io/fs"
	"syscall"
)

// names returns how many names the file has.
func names(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Nlink) //nolint:unconvert // its type differs between systems
	}
	return 1
}
