//go:build linux

package install_test

import (
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestDeb(t *testing.T) {
	deb := oneFile(t, "holdfast_*_amd64.deb")
	r := newRoot(t)
	r.unpack(`dpkg -x "$1" .`, deb)
	r.works("/usr/bin/holdfast")
	r.oneDate("usr")
	r.has("usr/share/man/man1/holdfast-run.1.gz", ".TH HOLDFAST\\-RUN 1")
	r.has("usr/share/bash-completion/completions/holdfast", "complete -o default")
	r.has("usr/share/zsh/vendor-completions/_holdfast", "#compdef holdfast")
	r.has("usr/share/fish/vendor_completions.d/holdfast.fish", "complete -c holdfast")
	r.has("usr/share/doc/holdfast/copyright", "Apache-2.0")
	r.has("usr/lib/systemd/system/holdfast.service", "ExecStart=/usr/bin/holdfast serve")
	r.has("usr/lib/systemd/system/holdfast.socket", "ListenStream=127.0.0.1:4653")
}

func TestRPM(t *testing.T) {
	rpm := oneFile(t, "holdfast-*.x86_64.rpm")
	need(t, "rpm2cpio", "cpio")
	r := newRoot(t)
	// rpm2cpio exits with 1 for packages of nfpm, which do not contain the size of the payload;
	// cpio detects a short archive itself.
	r.unpack(`{ rpm2cpio "$1" || true; } | cpio --extract --no-absolute-filenames --make-directories --quiet`, rpm)
	r.works("/usr/bin/holdfast")
	r.has("usr/share/man/man1/holdfast.1.gz", ".TH HOLDFAST 1")
	r.has("usr/share/bash-completion/completions/holdfast", "complete -o default")
	r.has("usr/share/zsh/site-functions/_holdfast", "#compdef holdfast")
	r.has("usr/share/licenses/holdfast/LICENSE", "Apache License")
	r.has("usr/lib/systemd/system/holdfast.service", "ExecStart=/usr/bin/holdfast serve")
	r.has("usr/lib/systemd/system/holdfast.socket", "ListenStream=127.0.0.1:4653")
}

func TestArchive(t *testing.T) {
	archive := oneFile(t, "holdfast_*_linux_amd64.tar.gz")
	r := newRoot(t)
	r.unpack(`mkdir unpacked; tar -C unpacked -xzf "$1" --strip-components=1`, archive)
	r.works("/unpacked/holdfast")
	r.oneDate("unpacked")
	for file, text := range map[string]string{
		"LICENSE":                   "Apache License",
		"README.md":                 "# Holdfast",
		"man/holdfast-status.1.gz":  ".TH HOLDFAST\\-STATUS 1",
		"completions/_holdfast":     "#compdef holdfast",
		"completions/holdfast.bash": "complete -o default",
		"completions/holdfast.fish": "complete -c holdfast",
		"completions/holdfast.ps1":  "Register-ArgumentCompleter",
		"systemd/holdfast.service":  "ExecStart=/usr/bin/holdfast serve",
		"systemd/holdfast.socket":   "ListenStream=127.0.0.1:4653",
	} {
		r.has(filepath.Join("unpacked", file), text)
	}
}

// A static binary needs no other file.
func TestBinary(t *testing.T) {
	file := binary(t)
	program, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is not static: it has a %s", p.Type)
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	const most = 23_800_000
	if info.Size() > most {
		t.Errorf("the binary has %d bytes, want at most %d", info.Size(), most)
	}
}

// Every program that links Holdfast, and every guard, pays for the initialization of its
// packages. The test measures memory instead of time, because memory is the same in each run.
func TestStart(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary(t), "version")
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	trace, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	sum, packages := 0, 0
	line := regexp.MustCompile(`(?m)^init (github\.com/holdfast-go/holdfast\S*) .* (\d+) bytes, \d+ allocs$`)
	for _, m := range line.FindAllStringSubmatch(string(trace), -1) {
		bytes, _ := strconv.Atoi(m[2])
		sum += bytes
		packages++
	}
	const most = 64 << 10
	if packages == 0 || sum > most {
		t.Errorf("the packages of Holdfast allocate %d bytes when they are initialized, want some and at most %d:\n%s", sum, most, trace)
	}
}

func TestChecksums(t *testing.T) {
	sums, err := os.ReadFile(oneFile(t, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]string)
	for line := range strings.Lines(string(sums)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Errorf("line %q", line)
		}
		listed[name] = sum
	}
	for _, pattern := range []string{"*.deb", "*.rpm", "*.tar.gz", "*.cdx.json"} {
		for _, file := range packages(t, pattern) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(file)
			if sum := sha256.Sum256(content); listed[name] != hex.EncodeToString(sum[:]) {
				t.Errorf("%s: its checksum is %x, but %q is listed", name, sum, listed[name])
			}
			delete(listed, name)
		}
	}
	if len(listed) > 0 {
		t.Errorf("there are checksums without files: %v", listed)
	}
}

// The bill of materials names every linked module.
func TestSBOM(t *testing.T) {
	content, err := os.ReadFile(oneFile(t, "holdfast_*_linux_amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(content, &bill); err != nil {
		t.Fatal(err)
	}
	named := make(map[string]string)
	for _, c := range bill.Components {
		named[c.Name] = c.Version
	}
	info, err := buildinfo.ReadFile(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for _, m := range info.Deps {
		if m.Replace != nil {
			continue // a module of this repository
		}
		modules++
		if named[m.Path] != m.Version {
			t.Errorf("module %s %s is named with version %q", m.Path, m.Version, named[m.Path])
		}
	}
	if modules == 0 {
		t.Error("the binary names no module")
	}
}

// need skips the test if one of the programs is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("needs %s: apt-get install %s", p, p)
		}
	}
}
