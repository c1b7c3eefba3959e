//go:build linux

package install_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// root is a folder that programs see as the root of the file system.
type root struct {
	t   *testing.T
	dir string
	env []string
}

// newRoot returns an empty root, with a /proc and a /tmp.
func newRoot(t *testing.T) *root {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for chroot")
	}
	r := &root{t: t, dir: t.TempDir(), env: []string{"HOME=/tmp", "PATH=/usr/bin:/bin"}}
	for _, dir := range []string{"proc", "tmp"} {
		if err := os.Mkdir(filepath.Join(r.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(r.dir, "tmp"), 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return r
}

// command returns a program in the root, run by the user in a PID namespace of its own: all
// processes that it starts end with it.
func (r *root) command(user string, args ...string) *exec.Cmd {
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		chroot = "/usr/sbin/chroot"
	}
	cmd := exec.CommandContext(r.t.Context(), "unshare", append([]string{
		"--mount", "--pid", "--fork", "--kill-child", "--mount-proc=" + filepath.Join(r.dir, "proc"),
		chroot, "--userspec=" + user, r.dir,
	}, args...)...)
	cmd.Env = r.env
	return cmd
}

// output returns the output of a program in the root. The program must exit with 0.
func (r *root) output(args ...string) string {
	r.t.Helper()
	const nobody = "65534:65534"
	out, err := r.command(nobody, args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

// works tests the command in a root without other programs.
func (r *root) works(holdfast string) {
	r.t.Helper()
	version := r.output(holdfast, "version")
	if !strings.HasPrefix(version, "holdfast ") {
		r.t.Errorf("version: %q", version)
	}
	out := r.output(holdfast, "run", "hello", "--", holdfast, "version")
	if !strings.HasPrefix(out, "holdfast: this lock is for ") || !strings.HasSuffix(out, "\n"+version) {
		r.t.Errorf("run: %q, want the reach of the lock and %q", out, version)
	}
}

// oneDate tests that all files below the folder have the date of the commit from which they
// were built.
func (r *root) oneDate(folder string) {
	r.t.Helper()
	content, err := os.ReadFile(oneFile(r.t, "metadata.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	var made struct{ Commit string }
	if err := json.Unmarshal(content, &made); err != nil {
		r.t.Fatal(err)
	}
	date, err := exec.CommandContext(r.t.Context(), "git", "show", "-s", "--format=%ct", made.Commit).Output()
	if err != nil {
		r.t.Fatal(err)
	}
	want := strings.TrimSpace(string(date))
	_ = filepath.WalkDir(filepath.Join(r.dir, folder), func(path string, e fs.DirEntry, err error) error {
		info, statErr := os.Stat(path)
		if err := errors.Join(err, statErr); err != nil {
			r.t.Error(err)
			return nil
		}
		if got := strconv.FormatInt(info.ModTime().Unix(), 10); e.Type().IsRegular() && got != want {
			r.t.Errorf("%s: its date is %s, want that of the commit, %s", path, got, want)
		}
		return nil
	})
}

// unpack runs a shell script in the root's folder, with the package as $1.
func (r *root) unpack(script, pkg string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "bash", "-euo", "pipefail", "-c", script, "bash", pkg)
	cmd.Dir = r.dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, &out)
	}
}

// has tests that the file in the root contains the text.
func (r *root) has(file, text string) {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.dir, file))
	if err != nil {
		r.t.Error(err)
		return
	}
	if strings.HasSuffix(file, ".gz") {
		unzip, err := gzip.NewReader(bytes.NewReader(content))
		if err == nil {
			content, err = io.ReadAll(unzip)
		}
		if err != nil {
			r.t.Errorf("%s: %v", file, err)
			return
		}
	}
	if !bytes.Contains(content, []byte(text)) {
		r.t.Errorf("%s does not contain %q", file, text)
	}
}
