//go:build unix && !linux

package campaign

import (
	"errors"
	"testing"
)

// disk is a small file system for one campaign. This system has none.
type disk struct{ folder string }

func newDisk(testing.TB) *disk { return nil }

func (*disk) fill() error         { return errors.ErrUnsupported }
func (*disk) free() error         { return errors.ErrUnsupported }
func (*disk) writable(bool) error { return errors.ErrUnsupported }
