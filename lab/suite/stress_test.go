package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

func TestFailures(t *testing.T) {
	for output, want := range map[string][]string{
		"--- FAIL: TestA (0.00s)\n    a_test.go:1: no\n--- FAIL: TestB (0.00s)\nFAIL\n":                       {"TestA", "TestB"},
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/one (0.00s)\n        --- FAIL: TestA/one/two (0.00s)\n": {"TestA/one/two"},
		"panic: test timed out after 1s\n\tgoroutine 1":                                                       {"panic: test timed out after 1s"},
		"killed": {"the run, and no test"},
	} {
		if got := failures(output); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}

// TestStress runs a package that passes at first and fails later.
func TestStress(t *testing.T) {
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("STRESSED", filepath.Join(t.TempDir(), "ran"))
	kept := t.TempDir()
	binary := filepath.Join(kept, "stressed.test")
	dir := filepath.Join(root, "lab", "suite", "testdata", "stressed")
	if _, err := modules.Output(t.Context(), dir, "go", "test", "-c", "-o", binary, "."); err != nil {
		t.Fatal(err)
	}
	p := &stressed{folder: "stressed", dir: dir, binary: binary, tests: make(map[string]int)}
	for range 3 {
		p.run(t.Context(), kept, "Once", true)
	}
	var said strings.Builder
	if err := summary(&said, []*stressed{p}, kept); err == nil {
		t.Error("two runs failed, but stress returned no error")
	}
	for _, want := range []string{`stressed +3 runs, .* 2 failed`, `2 of 3: TestOnce`} {
		if !regexp.MustCompile(want).MatchString(said.String()) {
			t.Errorf("the summary is\n%s\nwithout %q", &said, want)
		}
	}
	if log, err := os.ReadFile(filepath.Join(kept, "stressed-2.log")); err != nil || !strings.Contains(string(log), "ran before") {
		t.Errorf("of the second failure it keeps %q (%v)", log, err)
	}
}
