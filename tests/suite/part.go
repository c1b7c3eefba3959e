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
func runPart(ctx context.Context, r *report, root string, all []modules.Module, race []string, of uint) error {
	commit, err := modules.Output(ctx, root, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	part := hash(strings.TrimSpace(commit)) % uint32(of)
	chosen := slices.DeleteFunc(slices.Clone(r.thorough), func(t test) bool { return hash(t.String())%uint32(of) != part })
	fmt.Printf("== %d of %d thorough tests\n", len(chosen), len(r.thorough))
	for _, m := range all {
		for _, g := range grouped(chosen, m.Path) {
			r.module = m
			args := append(slices.Clone(race), "-run", g.pattern, g.pkg)
			if err := testModule(ctx, r, filepath.Join(root, m.Dir), args); err != nil {
				return err
			}
		}
	}
	r.thorough = slices.DeleteFunc(r.thorough, func(t test) bool { return slices.Contains(chosen, t) })
	return nil
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

// grouped puts the tests of a module's packages together. Tests with the same parent
// run together, for their parent may prepare much.
func grouped(chosen []test, module string) []tests {
	type parent struct{ pkg, name string }
	names := make(map[parent][]string)
	var order []parent
	for _, t := range chosen {
		inside, ok := strings.CutPrefix(t.pkg+"/", module+"/")
		if !ok {
			continue
		}
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
