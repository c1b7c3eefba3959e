//go:build linux

package need

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// Lacks skips the test, or fails it if HOLDFAST_REQUIRE has the word. what names the missing
// tool.
func Lacks(t testing.TB, word, what string) {
	t.Helper()
	if Required(word) {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Python returns a command with Python packages, each given with its version. They are in a
// folder of .cache: the first run downloads them. Without pip or a network it calls Lacks.
func Python(t testing.TB, packages []string, command ...string) *exec.Cmd {
	t.Helper()
	pip, err := exec.LookPath("pip")
	if err != nil {
		Lacks(t, "pip", "pip is missing; on Debian: apt-get install python3-pip")
	}
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, ".cache", "python", strings.Join(packages, "+"))
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
			t.Fatal(err)
		}
		fresh, err := os.MkdirTemp(filepath.Dir(folder), "new-*") //nolint:usetesting // must be on the same file system as the folder
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(fresh)
		install := exec.CommandContext(t.Context(), pip, append([]string{"install", "--quiet", "--disable-pip-version-check", "--target", fresh}, packages...)...)
		if out, err := install.CombinedOutput(); err != nil {
			Lacks(t, "pip", fmt.Sprintf("pip cannot install %v: %s", packages, out))
		}
		// Another process may have created the folder first.
		if err := os.Rename(fresh, folder); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "bin", command[0]), command[1:]...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+folder)
	return cmd
}
