// Package stepped builds programs whose wall clock can be moved while they run.
//
// Go asks the kernel for the time without the C library, so that libfaketime, which
// stands in for that, moves the clocks of servers and not those of Go programs. What
// is built here has a package time that adds a number of seconds to what the kernel
// says; the monotonic clock stays as it is. A program moves it by the variable
// time.wallStep, which only code with the build tag stepped knows.
package stepped

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lab/internal/overlay"
)

// addition is a file more in package time.
const addition = `package time

import (
	"sync/atomic"
	_ "unsafe" // for go:linkname
)

//go:linkname wallStep
var wallStep int64

func stepped() int64 { return atomic.LoadInt64(&wallStep) }
`

// before and after are what Now does first.
const (
	before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	after  = before + "\tsec += stepped()\n"
)

// TestBinary builds the test binary of the package in a folder, with other texts of
// some files: by their paths.
func TestBinary(ctx context.Context, folder, program string, texts map[string]string) error {
	list, err := newOverlay(ctx, program+".overlay", texts)
	if err != nil {
		return err
	}
	return run(exec.CommandContext(ctx, "go", "test", "-C", folder, "-c", "-tags", "stepped", "-overlay", list, "-o", program, "."))
}

// newOverlay writes what is put in the place of the standard library's files, and of
// others, and the list of that.
func newOverlay(ctx context.Context, folder string, texts map[string]string) (string, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	library := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	changed, err := overlay.Replaced(filepath.Join(library, "time.go"), before, after)
	if err != nil {
		return "", fmt.Errorf("time.Now does not begin as it did in Go 1.26: %w", err)
	}
	all := map[string]string{filepath.Join(library, "time.go"): changed, filepath.Join(library, "stepped.go"): addition}
	maps.Copy(all, texts)
	return overlay.Write(folder, all)
}

func run(command *exec.Cmd) error {
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, said)
	}
	return nil
}
