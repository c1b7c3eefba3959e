//go:build linux

package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/need"
)

func needNode(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"node", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Lacks(t, tool, tool+" is missing")
		}
	}
	t.Parallel()
}

// javascriptClient returns the folder of the package.
func javascriptClient(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../../clients/js")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// The tests of clients/js are in JavaScript.
func TestJavaScript(t *testing.T) {
	needNode(t)
	built, err := holdfastBinary()
	if err != nil {
		t.Fatal(err)
	}
	folder := javascriptClient(t)
	files, err := filepath.Glob(filepath.Join(folder, "tests", "*.test.js"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no tests: %v", folder, err)
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--test"}, files...)...)
	cmd.Env = append(os.Environ(), "HOLDFAST_BIN="+filepath.Join(built, "holdfast"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "skipped 0\n") {
		t.Errorf("some tests were skipped:\n%s", out)
	}
}

// nightlyInNode returns a stage with the page's program, and how to start it.
func nightlyInNode(t *testing.T) (s *stage, server *run, start func() *run) {
	t.Helper()
	needNode(t)
	s = set(t)
	s.check(os.MkdirAll(s.path("node_modules/@holdfast-go"), 0o755))
	s.check(os.Symlink(javascriptClient(t), s.path("node_modules/@holdfast-go/client")))
	s.command("nightly.sh")
	s.script("nightly.mjs", shortTTL.Replace(recipe(t, "nightly.mjs")))
	server, url := s.serve()
	env := slices.Concat(s.env, []string{"HOLDFAST_STORE=" + url})
	node := s.tool("node")
	return s, server, func() *run { return s.startIn(env, node, s.path("nightly.mjs")) }
}

// One command runs at a time, and it ends with its program.
func TestNightlyInNode(t *testing.T) {
	s, _, start := nightlyInNode(t)
	first := start()
	command := s.awaitBegun(1)
	second := start()
	s.awaitWaiters("nightly", 1)
	s.checkBegun(1)
	first.signal(syscall.SIGKILL)
	s.awaitBegun(2)
	if isRunning(command.pid) {
		t.Error("the command of the killed program is still running")
	}
	s.letEnd(2) // a process of the killed command may take one
	second.exits(0)
}

// A program whose renewals get no answer kills its command before the next command begins,
// which locks in the store without the server.
func TestNightlyInNodeWithoutAnswer(t *testing.T) {
	s, server, start := nightlyInNode(t)
	first := start()
	command := s.awaitBegun(1)
	second := s.start("holdfast", "run", "--quiet", "nightly", "--", "./nightly.sh")
	s.awaitWaiters("nightly", 1)
	server.signal(syscall.SIGSTOP)
	s.awaitBegun(2)
	if isRunning(command.pid) {
		t.Error("the command outlived the lock")
	}
	first.exits(1)
	if !strings.Contains(first.printed(), "LockLost") {
		t.Errorf("it printed %q", first.printed())
	}
	server.signal(syscall.SIGCONT)
	s.letEnd(1)
	second.exits(0)
}
