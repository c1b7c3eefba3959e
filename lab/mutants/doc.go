// Package mutants tests the tests: it puts one mistake at a time into Holdfast, in a copy that
// only the compiler sees, and requires that the named test fails. A test that passes with its
// mutant proves nothing. The package has tests only.
package mutants
