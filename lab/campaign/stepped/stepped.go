// Package stepped builds programs whose wall clock can be moved while they run.
//
// libfaketime moves the clocks of servers, but not of Go programs, because Go reads the time
// from the kernel without the C library. A program that this package builds has a changed
// package time, which adds a number of seconds to the kernel's wall clock. Its monotonic clock
// does not change. The program sets the number in the variable time.wallStep, which only code
// with the build tag stepped can reach.
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

// addition is an additional file of package time.
const addition = `package time

import (
	"sync/atomic"
	_ "unsafe" // for go:linkname
)

//go:linkname wallStep
var wallStep int64

func stepped() int64 { return atomic.LoadInt64(&wallStep) }
`

// before and after are the start of Now: the original and its replacement.
const (
	before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	after  = before + "\tsec += stepped()\n"
)

// TestBinary builds the test binary of the package in the current folder. texts replaces the
// text of files by their paths.
func TestBinary(ctx context.Context, folder, program string, texts map[string]string) error {
	list, err := newOverlay(ctx, program+".overlay", texts)
	if err != nil {
		return err
	}
	return run(exec.CommandContext(ctx, "go", "test", "-C", folder, "-c", "-tags", "stepped", "-overlay", list, "-o", program, "."))
}

// newOverlay writes the overlay for the files of the standard library and of texts, and returns
// the path of its list.
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
