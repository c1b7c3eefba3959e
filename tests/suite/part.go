package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/tests/internal/modules"
)

// runPart runs one in of of the thorough tests that were left out. The commit
// chooses which, so that all of them run within some commits, and a commit's failure
// comes again when the commit is tested again.
func runPart(ctx context.Context, r *report, root string, in []modules.Module, race []string, of uint) error {
	commit, err := modules.Output(ctx, root, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	part := hash(strings.TrimSpace(commit)) % uint32(of)
	all, left := r.thorough, []leftOut(nil)
	chosen := make(map[string][]test) // by module
	for _, t := range all {
		if hash(t.String())%uint32(of) == part {
			chosen[t.module.Path] = append(chosen[t.module.Path], t.test)
		} else {
			left = append(left, t)
		}
	}
	fmt.Printf("== %d of %d thorough tests\n", len(all)-len(left), len(all))
	r.thorough = left
	var jobs []job
	for _, m := range in {
		for _, g := range grouped(chosen[m.Path], m.Path) {
			jobs = append(jobs, func(ctx context.Context) error {
				args := append(slices.Clone(race), "-run", g.pattern, g.pkg)
				return testModule(ctx, r, m, filepath.Join(root, m.Dir), args)
			})
		}
	}
	return runJobs(ctx, jobs)
}

// hash says where a name belongs. It is the same everywhere.
func hash(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// tests is what one run of go test can be asked for: tests of a package by a pattern
// that matches no others.
type tests struct {
	pattern string
	pkg     string // as go test has it, in the module's folder
}

// grouped puts tests of one module together. Those with the same parent run together,
// for it may prepare much.
func grouped(chosen []test, module string) []tests {
	type parent struct{ pkg, name string }
	names := make(map[parent][]string)
	var order []parent
	for _, t := range chosen {
		inside := strings.TrimPrefix(t.pkg+"/", module+"/")
		at := strings.LastIndex(t.name, "/") + 1
		p := parent{"./" + strings.TrimSuffix(inside, "/"), t.name[:at]}
		if names[p] == nil {
			order = append(order, p)
		}
		names[p] = append(names[p], regexp.QuoteMeta(t.name[at:]))
	}
	var found []tests
	for _, p := range order {
		pattern := "^(" + strings.Join(names[p], "|") + ")$"
		if p.name != "" {
			pattern = "^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSuffix(p.name, "/")), "/", "$/^") + "$/" + pattern
		}
		found = append(found, tests{pattern, p.pkg})
	}
	return found
}
