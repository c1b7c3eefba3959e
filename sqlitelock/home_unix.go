//go:build unix

package sqlitelock

import (
	"os"
	"syscall"
)

// ownedByOther reports whether this process runs as root and the folder belongs to another
// user.
func ownedByOther(folder string) bool {
	if os.Geteuid() != 0 {
		return false
	}
	info, err := os.Stat(folder)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0
}
