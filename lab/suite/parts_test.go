package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// Each package with tests must be in one part of the gate. Otherwise the gate would never run
// all of its tests, nor any under the race detector.
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
	gate, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := regexp.MustCompile(`(?m)^part-(\d+) = `).FindAllSubmatch(makefile, -1)
	for i, n := range numbers {
		if string(n[1]) != strconv.Itoa(i+1) {
			t.Errorf("part %s is the %dth", n[1], i+1)
		}
	}
	if of := fmt.Sprintf("%% %d + 1", len(numbers)); !strings.Contains(string(gate), of) {
		t.Errorf(".ci/run does not choose one of %d parts", len(numbers))
	}
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
