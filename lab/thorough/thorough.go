// Package thorough marks the tests that take too long for every run of make test.
// make test-all runs all of them, and the gate a part, which the commit chooses.
package thorough

import "testing"

// Skipped begins what a thorough test says when it is skipped. Modules that cannot
// import this package write the text themselves.
const Skipped = "thorough: "

// Test skips the test under -short, which is how make test runs. what says why the
// test takes long.
func Test(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip(Skipped + what)
	}
}
