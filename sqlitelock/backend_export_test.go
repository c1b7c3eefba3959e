package sqlitelock

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/driver/base"
)

// OpenBackend opens what the store is made of, on a new file.
func OpenBackend(t *testing.T) base.Backend {
	s, err := openBackend(t.Context(), filepath.Join(t.TempDir(), "locks.db"), nil, thisSystem())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
