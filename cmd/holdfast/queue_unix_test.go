//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast"
)

// waits RESOURCE OWNER... waits until those wait for the resource in $STORE, in that order.
func waits(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := holdfast.Open(ctx, ts.Getenv("STORE"), nil)
	ts.Check(err)
	defer client.Close()
	until(ts, fmt.Sprintf("others than %v wait for %s", args[1:], args[0]), func() bool {
		var owners []string
		for p, err := range client.Waiters(ctx, holdfast.Filter{Resource: args[0]}) {
			ts.Check(err)
			owners = append(owners, p.Owner)
		}
		return slices.Equal(owners, args[1:])
	})
}

// Of two runs that wait for each other's lock, inside another run each, one ends with 75
// and names the cycle. The other then gets its lock.
func TestCrossedRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := "sqlite://" + filepath.Join(dir, "locks.db")
	type end struct {
		status int
		stderr string
	}
	const script = `: >$1.holds
while ! [ -e a.holds ] || ! [ -e b.holds ]; do sleep 0.01; done
holdfast run --store "$STORE" --owner "inner $1" "$2" -- true`
	ends := make(chan end, 2)
	for outer, inner := range map[string]string{"a": "b", "b": "a"} {
		// A TTL so short that the outer runs renew while the inner ones wait.
		cmd := exec.CommandContext(t.Context(), "holdfast", "run", "--store", url, "--owner", "outer "+outer, "--ttl", "6s", outer,
			"--", "sh", "-c", script, "sh", outer, inner)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "STORE="+url, "HOLDFAST_QUIET=true") // a deadlock is said all the same
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		go func() {
			err := cmd.Run()
			e := end{stderr: stderr.String()}
			if exited, ok := errors.AsType[*exec.ExitError](err); ok {
				e.status = exited.ExitCode()
			} else if err != nil {
				e = end{-1, err.Error()}
			}
			ends <- e
		}()
	}
	began := time.Now()
	first, second := <-ends, <-ends
	took := time.Since(began)
	if first.status != 75 {
		first, second = second, first
	}
	cycle := regexp.MustCompile(`\Aholdfast: deadlock: this waits for "(a|b)", which outer (a|b) on .+ holds, who waits for "(a|b)", which the run around this one holds\. [^\n]+\n\z`)
	switch m := cycle.FindStringSubmatch(first.stderr); {
	case first.status != 75 || second.status != 0 || second.stderr != "":
		t.Errorf("they ended with %+v and %+v", first, second)
	case m == nil || m[1] != m[2] || m[1] == m[3]:
		t.Errorf("it says %q", first.stderr)
	}
	if took > time.Minute { // without the search for deadlocks they wait for ever
		t.Errorf("it took %v", took)
	}
}
