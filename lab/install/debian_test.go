//go:build linux

package install_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// On a Debian of this machine's release, with only the essential packages and the deb, a user
// without rights can run the first example of the README.
func TestReadmeOnDebian(t *testing.T) {
	deb := oneFile(t, "holdfast_*_amd64.deb")
	need(t, "mmdebstrap")
	r := newRoot(t)
	made := exec.CommandContext(t.Context(), "sh", "-c", `. /etc/os-release; exec mmdebstrap --quiet --variant=essential "$VERSION_CODENAME" "$1"`,
		"sh", filepath.Join(r.dir, "debian"))
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.dir = filepath.Join(r.dir, "debian")
	content, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "holdfast.deb"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	r.env = []string{"HOME=/tmp", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if out, err := r.command("0:0", "dpkg", "--install", "/holdfast.deb").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	const report = "#!/bin/sh\necho report written\n"
	if err := os.WriteFile(filepath.Join(r.dir, "tmp", "report.sh"), []byte(report), 0o755); err != nil {
		t.Fatal(err)
	}
	first, second := firstExample(t)
	// The second terminal is used while the first one holds the lock.
	script := "cd /tmp\n" + first + " &\n" +
		"until holdfast status nightly-report >/dev/null; do sleep 0.01; done\n" + strings.Join(second, "\n") + "\nwait $!\n"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := r.command("65534:65534", "sh", "-c", script)
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rest := string(out)
	for _, want := range []string{"RESOURCE ", "\nnightly-report  exclusive  ", "  all of November\n",
		`holdfast: "nightly-report" is held by `, "exit status 75\n", "report written\n"} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("it does not write %q where it should:\n%s", want, out)
		}
		rest = after
	}
}

// firstExample returns the commands of the first example in the README, for each of its two
// terminals.
func firstExample(t *testing.T) (first string, second []string) {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "```console\n")
	block, _, _ = strings.Cut(block, "```\n")
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		if command, ok := strings.CutPrefix(line, "first$ "); ok {
			first = command
		}
		if command, ok := strings.CutPrefix(line, "second$ "); ok {
			second = append(second, command)
		}
	}
	if first == "" || len(second) == 0 {
		t.Fatalf("the README does not begin with an example in two terminals: %q", block)
	}
	return first, second
}
