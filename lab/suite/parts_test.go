package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// A package that no part of the gate names would never run all of its tests, nor any
// under the race detector.
func TestParts(t *testing.T) {
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	parts := regexp.MustCompile(`(?m)^part-(\d+) = .*\bthorough\b.* FOLDERS='([^']*)'$`).FindAllSubmatch(makefile, -1)
	all, err := modules.Find(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Dir == modules.Bench {
			continue
		}
		packages, err := tested(t.Context(), root, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, pkg := range packages {
			var in []string
			for _, part := range parts {
				if regexp.MustCompile("^(" + string(part[2]) + ")$").MatchString(folderOf(m, pkg)) {
					in = append(in, string(part[1]))
				}
			}
			if len(in) != 1 {
				t.Errorf("%s is in %d parts of the gate: have it in FOLDERS of one part in the Makefile %v", folderOf(m, pkg), len(in), in)
			}
		}
	}
}
