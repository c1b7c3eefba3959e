package sqlitelock

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// networkFS believes the system, which marks what is local.
func networkFS(path string) string {
	var fs unix.Statfs_t
	for unix.Statfs(path, &fs) != nil {
		dir := filepath.Dir(path)
		if dir == path {
			return ""
		}
		path = dir
	}
	if fs.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return unix.ByteSliceToString(fs.Fstypename[:])
}

// isMountPoint: only Linux mounts single files.
func isMountPoint(string) bool { return false }
