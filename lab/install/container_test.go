//go:build linux

package install_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The steps of the Dockerfile make a working image. The test does not need Docker. It follows
// the steps itself: this machine is the build image, with the repository as /src and a folder
// of the test as /out.
func TestContainer(t *testing.T) {
	if os.Getenv("HOLDFAST_PACKAGES") == "" {
		t.Skip("builds the command: make packages-check")
	}
	r := newRoot(t)
	const repository = "../.."
	content, err := os.ReadFile(filepath.Join(repository, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	user, env, entry := "0:0", []string(nil), []string(nil)
	for line := range strings.Lines(string(content)) {
		step, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch step {
		case "", "#":
		case "FROM", "WORKDIR": // golang:1.26, /src, scratch
		case "RUN":
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(rest, "/out/", out+"/"))
			cmd.Dir = repository
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, text)
			}
		case "COPY":
			if rest != ". ." { // the whole repository into /src
				copyStep(t, r, out, strings.Fields(rest))
			}
		case "ENV":
			env = append(env, rest)
		case "USER":
			user = rest
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &entry); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		default:
			t.Fatalf("this test does not know %q", line)
		}
	}

	r.env = env
	run := func(args ...string) string {
		t.Helper()
		text, err := r.command(user, append(entry, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, text)
		}
		return string(text)
	}
	version := run("version")
	if got := run("run", "hello", "--", "holdfast", "version"); !strings.HasSuffix(got, "(/state/holdfast/holdfast.db)\n"+version) {
		t.Errorf("run: %q, want the lock in /state, and %q", got, version)
	}
}

// copyStep copies a file or an empty folder from the build image.
func copyStep(t *testing.T, r *root, out string, args []string) {
	t.Helper()
	owner := "0:0"
	for strings.HasPrefix(args[0], "--") {
		if o, ok := strings.CutPrefix(args[0], "--chown="); ok {
			owner = o
		}
		args = args[1:]
	}
	from, to := args[0], filepath.Join(r.dir, args[1])
	if f, ok := strings.CutPrefix(from, "/out/"); ok {
		from = filepath.Join(out, f)
	}
	uid, gid, _ := strings.Cut(owner, ":")
	user, _ := strconv.Atoi(uid)
	group, _ := strconv.Atoi(gid)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.CommandContext(t.Context(), "cp", "-rL", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := os.Chown(to, user, group); err != nil {
		t.Fatal(err)
	}
}
