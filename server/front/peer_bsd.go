//go:build darwin || freebsd

package front

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user who connected, as the kernel noted it then.
func peerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var errCred error
	err = raw.Control(func(fd uintptr) {
		cred, errCred = unix.GetsockoptXucred(int(fd), solLocal, unix.LOCAL_PEERCRED)
	})
	if err := errors.Join(err, errCred); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// solLocal is SOL_LOCAL, which package unix has for Darwin alone.
const solLocal = 0
