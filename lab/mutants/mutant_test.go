package mutants_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/overlay"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// mutant is a mistake: in the file, the text old is replaced by new.
type mutant struct {
	name     string
	file     string // relative to the root of the repository
	old, new string
	test     string // the test that must fail, with its subtests
	imports  string // a package that the new text needs and the file does not import
}

// suite is a package whose tests must detect the mutants.
type suite struct {
	module, pkg string
	// sound, if not empty, is a subtest beside each test that must still pass: the mutant has
	// one mistake, and does not fail because it no longer works at all.
	sound string
}

// catches runs the tests of each mutant, after running all of them without a mutant.
func (s suite) catches(t *testing.T, mutants []mutant) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range mutants {
		all = append(all, s.tests(m)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	skippedTests := sync.OnceValues(func() (skipped []string, _ error) {
		out, err := s.run(t, root, all)
		if err != nil {
			return nil, fmt.Errorf("the tests fail without any mutant: %w\n%s", err, out)
		}
		for _, test := range all {
			if !ended(out, "PASS", test) {
				skipped = append(skipped, test)
			}
		}
		return skipped, nil
	})
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			list := m.overlay(t, root)
			thorough.Test(t, "builds the tests once more, with the mutant")
			skipped, err := skippedTests()
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(s.tests(m), func(test string) bool { return slices.Contains(skipped, test) }) {
				t.Skipf("%s is skipped here without any mutant, too", m.test)
			}
			out, err := s.run(t, root, s.tests(m), "-overlay", list)
			switch {
			case err == nil:
				t.Errorf("%s lets it live:\n%s", m.test, out)
			case !ended(out, "FAIL", m.test):
				t.Errorf("not a failure of %s (%v):\n%s", m.test, err, out)
			case len(s.tests(m)) > 1 && !ended(out, "PASS", s.tests(m)[1]):
				t.Errorf("the mutant is too broken: it does not pass %s:\n%s", s.tests(m)[1], out)
			default:
				t.Logf("%s: caught by %s", m.name, m.test)
			}
		})
	}
}

// tests returns the tests to run with a mutant, its own first. The sound one runs without
// faults of the network: with faults, any test may fail with a mutant that handles them
// wrongly.
func (s suite) tests(m mutant) []string {
	if s.sound == "" || !strings.Contains(m.test, "/") { // or a test outside of the suite
		return []string{m.test}
	}
	return []string{m.test, strings.Replace(m.test[:strings.LastIndex(m.test, "/")+1], "BehindNetwork", "", 1) + s.sound}
}

// ended reports whether the test passed or failed, according to the output of go test -v.
func ended(out, how, test string) bool {
	return strings.Contains(out, fmt.Sprintf("--- %s: %s (", how, test))
}

// overlay writes the overlay with which the go command compiles the mutant.
func (m mutant) overlay(t *testing.T, root string) string {
	t.Helper()
	path := filepath.Join(root, m.file)
	text, err := overlay.Replaced(path, m.old, m.new)
	if err != nil {
		t.Fatal("the mutant is out of date: ", err)
	}
	if m.imports != "" {
		text = strings.Replace(text, "import (\n", fmt.Sprintf("import (\n\t%q\n", m.imports), 1)
	}
	list, err := overlay.Write(t.TempDir(), map[string]string{path: text})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// run runs tests of the package, each by its full name.
func (s suite) run(t *testing.T, root string, tests []string, flags ...string) (string, error) {
	t.Helper()
	patterns := make([]string, len(tests))
	for i, test := range tests {
		patterns[i] = "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	}
	args := append([]string{"test", "-v", "-count=1", "-vet=off", "-timeout=60s", "-run", strings.Join(patterns, "|")}, flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, s.pkg)...)
	cmd.Dir = filepath.Join(root, s.module)
	// As in a clean clone: no workspace, and no flags of the caller, such as -race, which would
	// only slow it down.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
