//go:build linux

package install_test

import (
	"os"
	"path/filepath"
	"testing"
)

// oneFile returns the only file of the packages that matches the pattern.
func oneFile(t *testing.T, pattern string) string {
	t.Helper()
	files := packages(t, pattern)
	if len(files) != 1 {
		t.Fatalf("%q matches %d files of the packages, want 1: %q", pattern, len(files), files)
	}
	return files[0]
}

// packages returns the files of the packages that match the pattern. Without packages it skips
// the test.
func packages(t *testing.T, pattern string) []string {
	t.Helper()
	dir := os.Getenv("HOLDFAST_PACKAGES")
	if dir == "" {
		t.Skip("needs packages: make packages makes them, make packages-check tests them")
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// binary returns the binary for this kind of machine.
func binary(t *testing.T) string {
	return oneFile(t, "*_linux_amd64_v1/holdfast")
}
