// Package outsider follows the instructions in CONTRIBUTING.md for a store outside this
// repository: it writes a module with such a store, runs the conformance suite on it, and
// builds the command with it. It has tests only.
package outsider
