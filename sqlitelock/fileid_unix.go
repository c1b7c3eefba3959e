//go:build unix

package sqlitelock

import (
	"io/fs"
	"syscall"
)

// identify tells a file from every other file that exists at the same time, and
// says how many names it has.
func identify(info fs.FileInfo) (id fileID, links uint64) {
	st := info.Sys().(*syscall.Stat_t)
	return fileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink) //nolint:unconvert // the types differ between systems
}
