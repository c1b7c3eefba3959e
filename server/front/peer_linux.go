package front

import (
	"errors"
	"net"
	"syscall"
)

// peerUID returns the user who connected, as the kernel noted it then.
func peerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var errCred error
	err = raw.Control(func(fd uintptr) {
		cred, errCred = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, errCred); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
