//go:build !unix

package engines

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// Only Unix has these signals.
const (
	freeze = syscall.Signal(-1)
	thaw   = syscall.Signal(-1)
)

// There is no such user here, and no server that needs one.

func unprivileged() *syscall.SysProcAttr { return nil }

func unprivilegedDir(ctx context.Context) (string, error) { return cacheDir(ctx) }

func unprivilegedFolder(ctx context.Context) (string, error) { return nodeFolder(ctx) }

func writeUnprivileged(path string, content []byte) error { return os.WriteFile(path, content, 0o600) }

func giveAway(string) error { return nil }

func lockFolder(context.Context, string) (*os.File, error) { return nil, errors.ErrUnsupported }
