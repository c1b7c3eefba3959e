//go:build !linux

package sqlitelock

import (
	"errors"
	"time"
)

// hints would tell that some process has written to a file. This system has
// nothing of the kind that the standard library could use.
type hints struct{}

func newHints(string) (*hints, error) { return nil, errors.ErrUnsupported }

func (*hints) take() (bool, error)                               { return false, errors.ErrUnsupported }
func (*hints) wait(time.Duration, <-chan struct{}) (bool, error) { return false, errors.ErrUnsupported }
func (*hints) interrupt() error                                  { return errors.ErrUnsupported }
func (*hints) close() error                                      { return errors.ErrUnsupported }
