//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// parts returns programs that do a part of the work of a run. The differences of their CPU
// times are the costs of its steps.
func parts(ctx context.Context, dir, holdfast string) ([]*peer, error) {
	empty := filepath.Join(dir, "empty")
	source := empty + ".go"
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", empty, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return []*peer{
		{name: "`true`", args: []string{"true"}},
		{name: "an empty Go program", args: []string{empty}},
		// The guard ends at once because of its invalid argument.
		{name: "the guard, until its first statement", args: []string{holdfast, "none"}, argv0: "holdguard"},
		{name: "`holdfast version`", args: []string{holdfast, "version"}},
		{name: "`holdfast status`, which opens the store and reads it", args: []string{holdfast, "status", "--json", "--store", "local", "peers"}, status: 1},
	}, nil
}
