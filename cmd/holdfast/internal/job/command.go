package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// Job is one run of a command under a lock.
type Job struct {
	acquire.Request
	Policy
	Hooks
	Containment
	Command []string
	path    string // of the command's file

	failed atomic.Pointer[error] // the last renewal's error, or a pointer to nil
}

// Find looks the command up in PATH.
func (j *Job) Find() error {
	name := j.Command[0]
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

// Describe returns the comment of a lock whose user gave none: the command's name, and the
// process to look for. It has no arguments, because they may be secret.
func (j *Job) Describe() string {
	name := strings.ToValidUTF8(filepath.Base(j.Command[0]), "?")
	return fmt.Sprintf("%s, pid %d", name, os.Getpid())
}

// cannotRun returns the error for a command that exists and does not run.
func cannotRun(name string, err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return exit.Errorf(exit.NotExecutable, "%q cannot be run: its arguments or its environment, which has the names of the resources, are too long; shorten them", name)
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // without the path: the text has the name
	}
	return exit.Errorf(exit.NotExecutable, "%q cannot be run: %v; check its permissions and format", name, err)
}
