package overlay_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/overlay"
)

// The text to replace must be there once: an outdated change fails.
func TestReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for before, want := range map[string]string{"one": "1 two two", "two": "", "three": ""} {
		got, err := overlay.Replaced(path, before, "1")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q replaced: %q, %v; want %q", before, got, err, want)
		}
	}
}
