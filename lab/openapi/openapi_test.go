//go:build linux

package openapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
	"github.com/holdfast-go/holdfast/lab/internal/need"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

const (
	schemathesis = "schemathesis==4.32.5"
	examples     = 12 // of each operation, in addition to those for its limits
	seed         = 1
	// patience limits how long a server may take to start or end on a busy machine.
	patience = time.Minute
)

// caller is the name of the caller with rights. The hooks use its length.
const caller = "ops"

func TestDocument(t *testing.T) {
	thorough.Test(t, "sends 2,000 requests")
	holdfast := build(t)
	t.Run("everybody", func(t *testing.T) {
		t.Parallel()
		check(t, start(t, holdfast), 0)
	})
	t.Run("a caller that may do everything", func(t *testing.T) {
		t.Parallel()
		token, auth := enroll(t, holdfast)
		check(t, start(t, holdfast, "--auth", auth), len(caller)+1, "--header", "Authorization: Bearer "+token)
	})
}

// check sends the requests that schemathesis generates from the document, and fails if it finds
// a difference. prefix is the number of bytes that the server writes before a lock ID.
func check(t *testing.T, url string, prefix int, args ...string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(dir, "openapi.yaml") // as a file: if schemathesis reads the document from the server, it does not test /openapi.yaml
	if err := os.WriteFile(document, get(t, url+"/openapi.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := need.Python(t, []string{schemathesis}, append([]string{
		"schemathesis", "run", document, "--url", url, "--checks", "all", "--max-examples", strconv.Itoa(examples),
		"--seed", strconv.Itoa(seed), "--request-timeout", "60", "--no-color", "--output-sanitize", "false",
	}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "HOME="+dir, "PREFIX="+strconv.Itoa(prefix))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	// Schemathesis does not fail if it finds no operations or no checks for them.
	all := regexp.MustCompile(`Operations: +([0-9]+) selected / ([0-9]+) total`).FindSubmatch(out)
	passed := regexp.MustCompile(`([0-9]+) generated, ([0-9]+) passed`).FindSubmatch(out)
	if all == nil || string(all[1]) != string(all[2]) || string(all[1]) != "13" || passed == nil || len(passed[2]) < 3 {
		t.Errorf("it did not try everything:\n%s", out)
	}
	t.Logf("%s requests", passed[1])
}

func build(t *testing.T) string {
	t.Helper()
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := modules.Output(t.Context(), filepath.Join(root, "cmd", "holdfast"), "go", "build", "-o", dir+"/", "."); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "holdfast")
}

// enroll creates a token, and an auth file that lets its caller do everything.
func enroll(t *testing.T, holdfast string) (token, auth string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), holdfast, "token", caller)
	var entry strings.Builder
	cmd.Stderr = &entry
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, entry.String())
	}
	var member map[string]any
	if err := json.Unmarshal([]byte(entry.String()), &member); err != nil {
		t.Fatal(err)
	}
	member["rules"] = []any{map[string]any{"resources": "*", "may": []string{"lock", "look", "force"}, "maxTtl": "forever"}}
	text, err := json.Marshal(map[string]any{"callers": []any{member}})
	if err != nil {
		t.Fatal(err)
	}
	auth = filepath.Join(t.TempDir(), "auth.json")
	if err := os.WriteFile(auth, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), auth
}

// start starts a server with an empty store and short waits, and returns its URL.
func start(t *testing.T, holdfast string, args ...string) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, holdfast, append([]string{
		"serve", "--listen", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "locks.db"), "--max-wait", "20ms", "--drain-delay", "0s",
		"--history", filepath.Join(t.TempDir(), "history.db"),
	}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, done := make(chan string), make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(said); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
			}
		}
		close(lines)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = cmd.Wait() // its status is that of the signal
	})
	var all []string
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatalf("the server ended: %q", all)
			}
			all = append(all, line)
			if at := regexp.MustCompile(`listening on (\S+), `).FindStringSubmatch(line); at != nil {
				url = at[1]
			}
			if line == "holdfast: ready" {
				go func() {
					for range lines { // discard later output
					}
				}()
				return url
			}
		case <-time.After(patience):
			t.Fatalf("the server is not ready: %q", all)
		}
	}
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", url, resp.StatusCode, err)
	}
	return body
}
