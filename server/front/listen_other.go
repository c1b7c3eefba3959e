//go:build !unix

package front

import (
	"errors"
	"fmt"
	"net"
)

// ListenUnix fails: this system does not say which user is at the other end of a socket.
func ListenUnix(path string) (net.Listener, error) {
	return nil, fmt.Errorf("socket %s: %w", path, errors.ErrUnsupported)
}
