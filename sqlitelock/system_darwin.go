package sqlitelock

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// thisSystem uses the wall clock: when that is set, the store's clock changes, too.
func thisSystem() system {
	return system{clockSource: clockSource{wall: time.Now}, mount: mount}
}

// mount uses the system's mark of local file systems. Only Linux mounts single files.
func mount(path string) (at, networkFS string) {
	var fs unix.Statfs_t
	for unix.Statfs(path, &fs) != nil {
		dir := filepath.Dir(path)
		if dir == path {
			return "", ""
		}
		path = dir
	}
	if fs.Flags&unix.MNT_LOCAL != 0 {
		return "", ""
	}
	return "", unix.ByteSliceToString(fs.Fstypename[:])
}
