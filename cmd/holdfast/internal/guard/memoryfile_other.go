//go:build unix && !linux

package guard

import (
	"errors"
	"os"
)

func memoryFile([]byte) (*os.File, error) { return nil, errors.ErrUnsupported }
