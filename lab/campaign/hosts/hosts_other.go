//go:build !linux

package hosts

import (
	"errors"
	"net"
	"testing"
)

var errUnsupported = errors.New("no network namespaces on this system")

func newNetwork(testing.TB, []string) (*Network, error) { return nil, errUnsupported }

func (h *Host) listen() (net.Listener, error) { return nil, errUnsupported }

func ip(...string) error { return errUnsupported }
