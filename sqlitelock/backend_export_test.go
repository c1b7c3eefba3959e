package sqlitelock

import (
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/driver/cas"
)

// OpenBackend opens what the store is made of, on a new file.
func OpenBackend(t *testing.T) cas.Backend {
	s, err := openBackend(t.Context(), filepath.Join(t.TempDir(), "locks.db"), nil, thisSystem())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
