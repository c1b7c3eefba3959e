// Package modules lists the Go modules of this repository, what they require of one another,
// and which of them are released. It uses only the standard library, git and the go command, so
// the tools that check modules run in a fresh clone before anything is downloaded.
package modules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Bench is the folder of the benchmarks. They are not in go.work and are not tidied: some
// libraries that they compare Holdfast with have test dependencies that no longer exist.
const Bench = "lab/bench"

// Module is a module of the repository: a folder with a go.mod.
type Module struct {
	Dir     string // relative to the root, with slashes; "." is the root itself
	Path    string
	Go      string            // the go directive
	Require []string          // module paths, direct and indirect
	Replace map[string]string // module path to folder, as written in go.mod
}

// Released reports whether a release tags the module. Only tests and examples are not released.
func (m Module) Released() bool {
	return m.Dir != "docs/examples" && m.Dir != "lab" && !strings.HasPrefix(m.Dir, "lab/") && path.Base(m.Dir) != "integration"
}

// Tag returns the git tag for a version of the module, as the go command expects it.
func (m Module) Tag(version string) string {
	if m.Dir == "." {
		return version
	}
	return m.Dir + "/" + version
}

// Root returns the top folder of the checkout that contains the working directory.
func Root(ctx context.Context) (string, error) {
	out, err := Output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	return strings.TrimSpace(out), err
}

// Find reads every go.mod that git tracks or would add, sorted by folder.
func Find(ctx context.Context, root string) ([]Module, error) {
	out, err := Output(ctx, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
		"--", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	var found []Module
	for file := range strings.SplitSeq(strings.TrimRight(out, "\x00"), "\x00") {
		if _, err := os.Stat(filepath.Join(root, file)); errors.Is(err, os.ErrNotExist) {
			continue // deleted, but the deletion is not staged yet
		}
		m, err := read(ctx, root, file)
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	slices.SortFunc(found, func(a, b Module) int { return strings.Compare(a.Dir, b.Dir) })
	return slices.CompactFunc(found, func(a, b Module) bool { return a.Dir == b.Dir }), nil
}

func read(ctx context.Context, root, file string) (Module, error) {
	out, err := Output(ctx, root, "go", "mod", "edit", "-json", file)
	if err != nil {
		return Module{}, err
	}
	var f struct {
		Module  struct{ Path string }
		Go      string
		Require []struct{ Path string }
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal([]byte(out), &f); err != nil {
		return Module{}, fmt.Errorf("%s: %w", file, err)
	}
	m := Module{
		Dir:     filepath.ToSlash(filepath.Dir(file)),
		Path:    f.Module.Path,
		Go:      f.Go,
		Replace: make(map[string]string),
	}
	for _, r := range f.Require {
		m.Require = append(m.Require, r.Path)
	}
	for _, r := range f.Replace {
		m.Replace[r.Old.Path] = r.New.Path
	}
	return m, nil
}

// Reach returns the modules that m depends on, directly or indirectly. Each module comes after
// its own dependencies.
func Reach(m Module, all []Module) []Module {
	var found []Module
	var visit func(Module)
	visit = func(m Module) {
		for _, other := range all {
			if slices.Contains(m.Require, other.Path) &&
				!slices.ContainsFunc(found, func(f Module) bool { return f.Path == other.Path }) {
				visit(other)
				found = append(found, other)
			}
		}
	}
	visit(m)
	return found
}

// Command prepares a command that sees only the module of its folder, as a user of that module
// does.
func Command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}

// Output runs a Command and returns its standard output. Its error contains the command and its
// standard error.
func Output(ctx context.Context, dir, name string, args ...string) (string, error) {
	return OutputOf(Command(ctx, dir, name, args...))
}

// OutputOf is Output for a prepared command.
func OutputOf(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s (in %s): %w\n%s", strings.Join(cmd.Args, " "), cmd.Dir, err,
			strings.TrimSpace(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}
