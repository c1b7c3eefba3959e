package main

import (
	"errors"
	"io/fs"
	"os/exec"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// job is one run of a command under a lock.
type job struct {
	acquisition
	policy
	command []string
	path    string // of the command's file

	failed atomic.Pointer[error] // how the last renewal went
}

// find finds the command's file.
func (j *job) find() error {
	name := j.command[0]
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		j.path = path
		return nil
	case errors.Is(err, exec.ErrDot):
		return exit.Errorf(exit.NotExecutable, "%q is only in the current folder; write ./%s to mean that one", name, name)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.NotFound, "there is no command %q; check its name and PATH", name)
	}
	return cannotRun(name, err)
}

// cannotRun is the error of a command that is there.
func cannotRun(name string, err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // without the path, which is named already
	}
	return exit.Errorf(exit.NotExecutable, "%q cannot be run: %v; check its permissions and format", name, err)
}
