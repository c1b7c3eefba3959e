package engines

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// owner makes this test binary start a node, print where its data are, and hang.
const owner = "HOLDFAST_TEST_OWNER"

// However a test ends, no data remain on the disk.
func TestNodeGoesWithItsFolder(t *testing.T) {
	SearchServers(t, func(t *testing.T, s *SearchServer) {
		if os.Getenv(owner) != "" {
			os.Stdout.WriteString("folder: " + s.folder + "\n")
			select {}
		}
		if !exists(s.folder) {
			t.Fatalf("%s is not there", s.folder)
		}
		s.process.end()
		s.process = nil
		awaitGone(t, s.folder)

		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNodeGoesWithItsFolder$/^"+s.Kind+"$")
		cmd.Env = append(os.Environ(), owner+"=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var folder string
		for lines := bufio.NewScanner(out); folder == "" && lines.Scan(); {
			folder, _ = strings.CutPrefix(lines.Text(), "folder: ")
			if folder == lines.Text() {
				folder = ""
			}
		}
		if err := cmd.Process.Kill(); err != nil || !exists(folder) {
			t.Fatalf("folder %q: %v", folder, err)
		}
		cmd.Wait() //nolint:errcheck // killed
		awaitGone(t, folder)
	})
}

func awaitGone(t *testing.T, folder string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); exists(folder); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", folder)
		}
	}
}

// If a node and its test are killed together, a later node removes the data when no restart can
// need them any more.
func TestLeftFoldersAreRemoved(t *testing.T) {
	folder, err := nodeFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"old": 2 * time.Hour, "new": time.Minute} {
		lock := filepath.Join(folder+"_"+name, "holdfast.lock")
		if err := os.MkdirAll(filepath.Dir(lock), 0o777); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(filepath.Dir(lock))
		if err := os.WriteFile(lock, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(lock, at, at); err != nil {
			t.Fatal(err)
		}
	}
	NewOpenSearch(t)
	if exists(folder+"_old") || !exists(folder+"_new") {
		t.Errorf("of a folder left 2 hours and one left a minute ago: there is %t, %t; want false, true", exists(folder+"_old"), exists(folder+"_new"))
	}
}
