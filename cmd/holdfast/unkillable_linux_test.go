package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// nobody is a user without rights.
const nobody = "65534"

// foreignDir is a folder of another user than the one whose commands run in it, with a copy of
// this program, and with asroot: setpriv with the rights of root.
type foreignDir struct {
	t   *testing.T
	dir string
}

func newForeignDir(t *testing.T) foreignDir {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Getuid() != 0 {
		t.Skip("needs root and setpriv")
	}
	dir, err := os.MkdirTemp("", "holdfast-foreign-") //nolint:usetesting // others may not enter t.TempDir
	check(t, err)
	t.Cleanup(func() {
		for p := range proc.Descendants(1, nil) { // what a test that failed leaves behind
			if at, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID)); err == nil && at == dir {
				_ = p.Signal(syscall.SIGKILL)
			}
		}
		_ = os.RemoveAll(dir)
	})
	check(t, os.Chmod(dir, 0o777))
	self, err := os.Executable()
	check(t, err)
	for name, from := range map[string]string{"holdfast": self, "asroot": setpriv} {
		program, err := os.ReadFile(from)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dir, name), program, 0o700)) //nolint:gosec // it is executed
		check(t, os.Chmod(filepath.Join(dir, name), 0o755))
	}
	check(t, os.Chmod(filepath.Join(dir, "asroot"), 0o755|os.ModeSetuid))
	if out, err := (foreignDir{t, dir}).command("./asroot", "--reuid", "0", "id", "-u").Output(); err != nil || string(out) != "0\n" {
		t.Skipf("needs a folder for setuid programs: %s, %v", out, err)
	}
	if err := (foreignDir{t, dir}).command("cat", "/proc/1/stat").Run(); err != nil {
		t.Skip("needs a /proc that shows the processes of others: it is mounted with hidepid")
	}
	return foreignDir{t, dir}
}

// command is a command of nobody.
func (b foreignDir) command(args ...string) *exec.Cmd {
	args = append([]string{"--reuid", nobody, "--regid", nobody, "--clear-groups"}, args...)
	cmd := exec.CommandContext(b.t.Context(), "setpriv", args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "HOLDFAST_STORE=sqlite:locks.db", "HOME="+b.dir)
	return cmd
}

// start starts a run of nobody, and returns the first line on stderr and what comes then.
func (b foreignDir) start(args ...string) (cmd *exec.Cmd, lines io.Reader, first string) {
	cmd = b.command(append([]string{"./holdfast", "run"}, args...)...)
	lines, err := cmd.StderrPipe()
	check(b.t, err)
	check(b.t, cmd.Start())
	line := make([]byte, 1000)
	n, _ := lines.Read(line)
	return cmd, lines, string(line[:n])
}

func (b foreignDir) want(stderr, pattern string) {
	b.t.Helper()
	if !regexp.MustCompile(pattern).MatchString(stderr) {
		b.t.Errorf("stderr was %q, want %s", stderr, pattern)
	}
}

// A program that runs as another user cannot be ended. That is told soon after it has started.
func TestUnkillableIsTold(t *testing.T) {
	b := newForeignDir(t)
	// The command runs until it was told.
	const script = `trap 'exit 5' USR1; ./asroot --reuid 0 sleep 1000 & while :; do sleep 0.05; done`
	cmd, _, line := b.start("r", "--", "sh", "-c", script)
	b.want(line, `^holdfast: "(sleep|asroot)" \(pid [0-9]+\) runs as root: it cannot be ended when the lock of "r" is lost, .*\n`)
	check(t, cmd.Process.Signal(syscall.SIGUSR1))
	b.endRoot(line)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 5 {
		t.Errorf("status %d", got)
	}
}

// endRoot ends the process that the line names.
func (b foreignDir) endRoot(line string) {
	b.t.Helper()
	found := regexp.MustCompile(`\(pid ([0-9]+)\)`).FindStringSubmatch(line)
	if found == nil {
		b.t.Fatalf("no process is named by %q", line)
	}
	if out, err := exec.CommandContext(b.t.Context(), "kill", "-KILL", found[1]).CombinedOutput(); err != nil {
		b.t.Fatal(err, string(out))
	}
}
