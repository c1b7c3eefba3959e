//go:build linux

package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/need"
)

const pythonClient = "../../clients/python"

// python returns the path of the interpreter. The one in PATH may be a script that looks for a
// user's own.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		need.Lacks(t, "python3", "python3 is missing")
	}
	return strings.TrimSpace(string(path))
}

func TestPythonClient(t *testing.T) {
	t.Parallel()
	s := set(t)
	cmd := exec.CommandContext(t.Context(), python(t), "-B", "-m", "unittest")
	cmd.Dir = pythonClient
	cmd.Env = append(os.Environ(), "HOLDFAST_COMMAND="+filepath.Join(s.bin, "holdfast"), "TMPDIR="+s.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// Two programs as the page shows them run one after another, with rising tokens.
func TestPythonProgram(t *testing.T) {
	t.Parallel()
	s := set(t)
	interpreter := python(t)
	source, err := filepath.Abs(filepath.Join(pythonClient, "src"))
	s.check(err)
	s.script("nightly.py", recipe(t, "nightly.py"))
	s.command("invoice.sh")
	s.file("customers.txt", 0o644, "ada\neve\n")
	_, url := s.serve()
	env := append(slices.Clone(s.env), "HOLDFAST_STORE="+url, "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1")
	first := s.startIn(env, interpreter, s.path("nightly.py"))
	s.awaitBegun(1)
	second := s.startIn(env, interpreter, s.path("nightly.py"))
	s.awaitWaiters("nightly", 1)
	s.letEnd(4)
	first.exits(0)
	second.exits(0)
	var got []string
	for _, begin := range s.events("begin") {
		f := strings.Fields(begin.args)
		got = append(got, f[len(f)-2]+" "+f[len(f)-1])
	}
	if len(got) != 4 {
		t.Fatalf("invoices: %q, want 4", got)
	}
	ada, token, _ := strings.Cut(got[0], " ")
	_, later, _ := strings.Cut(got[2], " ")
	if want := []string{"ada " + token, "eve " + token, "ada " + later, "eve " + later}; ada != "ada" || !slices.Equal(got, want) || token >= later {
		t.Errorf("invoices: %q, want %q with a larger token later", got, want)
	}
}
