package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"path"
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

// grouped puts tests of one module together. Subtests of the same parent run together,
// because it may prepare much. So do subtests of the same name whose parents have no
// other: the same test on another server.
func grouped(chosen []test, module string) []tests {
	type group struct{ pkg, parent, sub string } // one of the last two is empty
	siblings := make(map[group]int)
	for _, t := range chosen {
		parent, _ := path.Split(t.name)
		siblings[group{t.pkg, parent, ""}]++
	}
	names := make(map[group][]string)
	var order []group
	for _, t := range chosen {
		parent, name := path.Split(t.name)
		g := group{t.pkg, parent, ""}
		if strings.Count(t.name, "/") == 1 && siblings[g] == 1 {
			g, name = group{t.pkg, "", name}, strings.TrimSuffix(parent, "/")
		}
		if names[g] == nil {
			order = append(order, g)
		}
		names[g] = append(names[g], regexp.QuoteMeta(name))
	}
	var found []tests
	for _, g := range order {
		pattern := "^(" + strings.Join(names[g], "|") + ")$"
		switch {
		case g.sub != "":
			pattern += "/^" + regexp.QuoteMeta(g.sub) + "$"
		case g.parent != "":
			parent := regexp.QuoteMeta(strings.TrimSuffix(g.parent, "/"))
			pattern = "^" + strings.ReplaceAll(parent, "/", "$/^") + "$/" + pattern
		}
		inside := strings.TrimPrefix(g.pkg+"/", module+"/")
		found = append(found, tests{pattern, "./" + strings.TrimSuffix(inside, "/")})
	}
	return found
}
