// Package outsider_test does what CONTRIBUTING.md says to those whose store is not
// in this repository: it tests a store in a module of its own, and builds the
// command with it.
package outsider_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/internal/modules"
	"github.com/holdfast-go/holdfast/tests/internal/overlay"
)

// store registers URLs for a store. What it is made of is of no account here.
const store = `package otherlock

import (
	"context"
	"net/url"

	"github.com/holdfast-go/holdfast/driver"
)

func init() {
	driver.Register("other", func(ctx context.Context, u *url.URL) (driver.Store, error) {
		return driver.Open(ctx, "sqlite:"+u.Path)
	})
}
`

const conformance = `package otherlock

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

func open(*testing.T) *drivertest.Harness { return &drivertest.Harness{Store: memlock.New(nil)} }

func TestConformance(t *testing.T) { drivertest.Run(t, open) }
`

// newModule writes a module outside the repository that requires the root module.
func newModule(t *testing.T, root string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"go.mod": fmt.Sprintf("module example.com/otherlock\n\ngo 1.25.0\n\nrequire github.com/holdfast-go/holdfast v0.0.0\n\n"+
			"replace github.com/holdfast-go/holdfast => %s\n", root),
		"otherlock.go":      store,
		"otherlock_test.go": conformance,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func goCommand(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := modules.Output(t.Context(), dir, "go", args...); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	goCommand(t, newModule(t, root), "test", "-run", "^TestConformance$/^(status|S22a_unreachable)$", ".")
}

func TestCommand(t *testing.T) {
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, command := newModule(t, root), filepath.Join(root, "cmd", "holdfast")
	// The checkout stays as it is: what the outsider writes into it lies elsewhere.
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(command, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "command"+strings.TrimPrefix(file, "go")), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mod := filepath.Join(dir, "command.mod")
	goCommand(t, command, "mod", "edit", "-require=example.com/otherlock@v0.0.0", "-replace=example.com/otherlock="+dir, mod)
	list, err := overlay.Write(t.TempDir(), map[string]string{
		filepath.Join(command, "otherlock.go"): "package main\n\nimport _ \"example.com/otherlock\"\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "holdfast")
	goCommand(t, command, "build", "-modfile="+mod, "-overlay="+list, "-o", binary, ".")

	data := "other:" + filepath.Join(dir, "locks.db")
	out, err := exec.CommandContext(t.Context(), binary, "run", "--store", data, "job", "--",
		binary, "status", "--store", data, "job").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "job") {
		t.Errorf("status of a lock that is held in the outsider's store: %v\n%s", err, out)
	}
}
