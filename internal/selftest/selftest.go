// Package selftest tests suites of tests: they must pass correct subjects and fail for each
// mutant. A suite that finds a fault fails the test that runs it, so it runs in a process of
// its own.
package selftest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const env = "HOLDFAST_SELFTEST"

// Subject returns the name of the subject that the test is to check. It skips the test unless
// Run has started it.
func Subject(t *testing.T) string {
	t.Helper()
	name := os.Getenv(env)
	if name == "" {
		t.Skip("run by TestMutants")
	}
	return name
}

// Run runs subtests of a test of this program on a subject, in another process. It returns
// the output of the test and whether it passed.
func Run(t *testing.T, test, subject, subtests string) (output string, passed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$/"+subtests, "-test.v")
	cmd.Env = append(os.Environ(), env+"="+subject)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err == nil
}

// Passes fails t unless the whole test passes on a subject, of which the mutants are made: so
// they fail for what they break.
func Passes(t *testing.T, test, subject string) {
	t.Helper()
	if out, passed := Run(t, test, subject, ""); !passed || !strings.Contains(out, "--- PASS: "+test) {
		t.Error(out)
	}
}

// Catches fails t unless a subtest fails on a subject.
func Catches(t *testing.T, test, subject, subtest string) {
	t.Helper()
	out, passed := Run(t, test, subject, "^"+subtest+"$")
	if passed || !strings.Contains(out, "--- FAIL: "+test+"/"+subtest) {
		t.Errorf("%s did not catch %s:\n%s", subtest, subject, out)
	}
}
