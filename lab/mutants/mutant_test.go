// Package mutants_test changes Holdfast for the worse, one mistake at a time, and
// demands that a test notices. A test that lets its mutant live proves nothing.
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

// mutant is one mistake: in the file, the text is replaced.
type mutant struct {
	name     string
	file     string // below the top of the repository
	old, new string
	test     string // that must fail, with its subtests
	imports  string // a package that the new text needs and the file lacks
}

// suite is a package whose tests are there for the mutants.
type suite struct {
	module, pkg string
	// sound, if not empty, is a subtest beside each test which the mutants pass: they
	// are mistaken about one thing, and do not fail because they no longer run at all.
	sound string
}

// catches runs each mutant's test, first all of them without any mutant.
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
				t.Errorf("it is no mutant but a wreck, for it does not pass %s:\n%s", s.tests(m)[1], out)
			default:
				t.Logf("%s: caught by %s", m.name, m.test)
			}
		})
	}
}

// tests are those that a mutant is tried with: its own comes first. The other one runs on
// a sound network: on a bad one a mutant of what is lost there may fail in any test.
func (s suite) tests(m mutant) []string {
	if s.sound == "" || !strings.Contains(m.test, "/") { // or a test that the store has beside the suite
		return []string{m.test}
	}
	return []string{m.test, strings.Replace(m.test[:strings.LastIndex(m.test, "/")+1], "BehindNetwork", "", 1) + s.sound}
}

// ended reports whether the test passed or failed, as go test -v says it.
func ended(out, how, test string) bool {
	return strings.Contains(out, fmt.Sprintf("--- %s: %s (", how, test))
}

// overlay writes what tells the go command to compile the mutant.
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
	// As in a clean clone: no workspace, and no flags of the caller's, such as
	// -race, which would only make it slow.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
