package main

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// workFolders reads the folders of `go work edit -json`.
func workFolders(edit string) ([]string, error) {
	var w struct {
		Use []struct{ DiskPath string }
	}
	if err := json.Unmarshal([]byte(edit), &w); err != nil {
		return nil, fmt.Errorf("go.work: %w", err)
	}
	var dirs []string
	for _, u := range w.Use {
		dirs = append(dirs, path.Clean(u.DiskPath))
	}
	return dirs, nil
}

// rules returns the problems of the go.mod files and of go.work that can be found by reading
// them.
func rules(all []modules.Module, inWork []string) []string {
	var problems []string
	complain := func(m modules.Module, format string, args ...any) {
		problems = append(problems, path.Join(m.Dir, "go.mod")+": "+fmt.Sprintf(format, args...))
	}
	for _, m := range all {
		if m.Dir == "." && m.Go != rootGo {
			complain(m, "go %s: the root module promises go %s", m.Go, rootGo)
		}
		if in, want := slices.Contains(inWork, m.Dir), m.Dir != modules.Bench; in != want {
			complain(m, "is in go.work: %t, want %t", in, want)
		}
		for _, need := range modules.Reach(m, all) {
			got, replaced := m.Replace[need.Path]
			want, err := filepath.Rel(m.Dir, need.Dir)
			switch {
			case err != nil:
				complain(m, "%v", err)
			case !replaced:
				complain(m, "needs `replace %s => %s`, for it reaches that module", need.Path, filepath.ToSlash(want))
			case path.Clean(got) != filepath.ToSlash(want):
				complain(m, "replaces %s by %s, but that module lies in %s", need.Path, got, filepath.ToSlash(want))
			}
		}
		for replaced := range m.Replace {
			// Users of a module do not get its replaces: a replaced module of others would
			// differ here from what they get.
			if !slices.ContainsFunc(all, func(o modules.Module) bool { return o.Path == replaced }) {
				complain(m, "replaces %s, which is not a module of this repository", replaced)
			}
		}
	}
	return problems
}
