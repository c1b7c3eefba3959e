// Package thorough marks tests that take too long for make test. make thorough and make
// test-all run all of them; the gate runs a part, which the commit chooses.
package thorough

import "testing"

// Skipped is the prefix of the reason with which a thorough test is skipped. Modules that
// cannot import this package write the text themselves.
const Skipped = "thorough: "

// Test skips the test under -short, which make test sets. what says why the test takes long.
func Test(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skip(Skipped + what)
	}
}
