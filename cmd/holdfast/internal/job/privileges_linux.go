package job

import (
	"os"

	"golang.org/x/sys/unix"
)

// privileges returns which rights beyond this process's the executable file gives to what
// runs it, for a message; empty: none, or this process may end it all the same. uid is the
// other user whose rights they are, or -1.
func privileges(path string) (uid int, rights string) {
	var stat unix.Stat_t
	if unix.Stat(path, &stat) != nil || mayKillAll() || noNewRights(path) {
		return -1, ""
	}
	switch owner := int(stat.Uid); {
	case stat.Mode&unix.S_ISUID != 0 && owner != os.Getuid():
		return owner, "runs as " + userName(owner) + " (setuid)"
	case stat.Mode&unix.S_ISGID != 0 && stat.Mode&unix.S_IXGRP != 0 && int(stat.Gid) != os.Getgid():
		return -1, "runs as another group (setgid)"
	}
	if n, err := unix.Getxattr(path, "security.capability", nil); err == nil && n > 0 {
		return -1, "has capabilities"
	}
	return -1, ""
}

// mayKillAll reports whether this process may signal processes of any user.
func mayKillAll() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_KILL) != 0
}

// noNewRights reports whether the kernel gives no rights to what runs the file.
func noNewRights(path string) bool {
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && on == 1 {
		return true
	}
	var at unix.Statfs_t
	return unix.Statfs(path, &at) == nil && at.Flags&unix.ST_NOSUID != 0
}
