//go:build darwin || freebsd

package front

import "golang.org/x/sys/unix"

// solLocal is SOL_LOCAL, which package unix has for Darwin alone.
const solLocal = 0

// uidOf returns the user at the other end of a Unix socket.
func uidOf(fd int) (int, error) {
	cred, err := unix.GetsockoptXucred(fd, solLocal, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
