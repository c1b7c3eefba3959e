//go:build !linux && !darwin && !freebsd

package front

import (
	"errors"
	"fmt"
	"net"
)

// ListenUnix fails: who is at the other end of a socket is not known here.
func ListenUnix(path string) (net.Listener, error) {
	return nil, fmt.Errorf("socket %s: %w", path, errors.ErrUnsupported)
}

func peerUID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
