package outsider_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// store registers URLs for a store. Its implementation does not matter here.
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
			"replace github.com/holdfast-go/holdfast => %q\n", root),
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

// program is the command with one more store.
const program = `package main

import (
	_ "example.com/otherlock"

	"github.com/holdfast-go/holdfast/cmd/holdfast/cli"
)

func main() { cli.Main() }
`

// newProgram writes the module of the program. It has the requirements of the command's module,
// replaced by folders of the checkout.
func newProgram(t *testing.T, root, store string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	command := filepath.Join(root, "cmd", "holdfast")
	files := map[string]string{"main.go": program}
	for _, file := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(command, file))
		if err != nil {
			t.Fatal(err)
		}
		files[file] = strings.ReplaceAll(string(text), "=> ../../", "=> "+root+"/")
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const module = "github.com/holdfast-go/holdfast/cmd/holdfast"
	goCommand(t, dir, "mod", "edit", "-module=example.com/holdfast",
		"-require="+module+"@v0.0.0", "-replace="+module+"="+command,
		"-require=example.com/otherlock@v0.0.0", "-replace=example.com/otherlock="+store)
	return dir
}

func TestCommand(t *testing.T) {
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := newModule(t, root)
	binary := filepath.Join(dir, "holdfast")
	goCommand(t, newProgram(t, root, dir), "build", "-o", binary, ".")

	data := "other:" + filepath.Join(dir, "locks.db")
	out, err := exec.CommandContext(t.Context(), binary, "run", "--store", data, "job", "--",
		binary, "status", "--store", data, "job").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "job") {
		t.Errorf("status of a lock that is held in the outsider's store: %v\n%s", err, out)
	}
}
